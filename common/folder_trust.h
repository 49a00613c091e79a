// May what lies in a folder be believed? As sshd's StrictModes asks of a user's keys.
#pragma once

#include <sys/types.h>

#include <string>

namespace cairn {

// "" if nobody but root and `user` can change what `path` leads to: on the way there, every folder and every
// link belongs to one of them, and none can be written by group or others. A folder with the sticky bit
// (/tmp) may be on the way, for nobody can take away there what is another's; it can't be the end of the way.
// Otherwise which level it is, whose, and why not. Relative paths begin where we are.
[[nodiscard]] std::string who_else_can_write(const std::string& path, uid_t user);

// "user 1000 (ann)"
[[nodiscard]] std::string words_for_user(uid_t user);

}  // namespace cairn
