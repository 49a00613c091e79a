// Where checkpoints are if nobody says where: `cairn launch` has them written there, and the verbs that read
// some look there.
#pragma once

#include <string>

namespace cairn {

// `here`, or, where others can write that too, `here`/cairn-USER.
[[nodiscard]] std::string default_checkpoint_folder(const std::string& here);

// Where new ones go: $CAIRN_CKPTDIR, else the default of the current folder.
[[nodiscard]] std::string usual_checkpoint_folder();

// Where to look for some: the same, or the current folder if that default isn't there.
[[nodiscard]] std::string folder_of_old_checkpoints();

}  // namespace cairn
