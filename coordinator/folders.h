// What publishing does to folders: used by publish*.cpp only.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "common/error.h"

namespace cairn::coordinator {

[[nodiscard]] std::vector<std::string> names_in(const std::string& folder);
[[nodiscard]] Result<> sync_folder(const std::string& folder);
// Complete and on the disk, with exactly this mode.
[[nodiscard]] Result<> write_file(const std::string& path, const std::string& text, mode_t mode);
// Makes `link` lead to `target`, at once: nobody ever finds it missing. Errors: something else has that name,
// which stays as it is.
[[nodiscard]] Result<> move_link(const std::string& link, const std::string& target);
// Whom killed coordinators left: partial folders whose lock nobody holds, removals not finished.
void remove_leftovers(const std::string& folder);
// D/latest and D/restart.sh to this generation.
[[nodiscard]] Result<> lead_to(const std::string& root, const std::string& cid, std::uint32_t generation,
                               const std::function<void()>& step = {});

}  // namespace cairn::coordinator
