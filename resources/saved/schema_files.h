// Saved files: the list, and how contents and attributes are read, copied and compared. For both sides.
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>

#include "common/error.h"
#include "common/fd.h"
#include "resources/saved/schema.h"

namespace cairn {

inline constexpr const char* saved_list = "files.image";  // in a generation's folder
inline constexpr const char* saved_folder = "files";
// What a restart puts beside a file, or beside a folder named by --with: NAME.cairn-after-N is what was
// there, .cairn-new-* is what is being put back. Neither is the program's, nor saved.
inline constexpr std::string_view after_mark = ".cairn-after-", new_mark = ".cairn-new-";
[[nodiscard]] bool is_of_a_restart(std::string_view name);

[[nodiscard]] Result<> write_saved_files(int directory, const schema::SavedFiles& saved);
// Errors: ExitCode::damaged, naming file and field.
[[nodiscard]] Result<schema::SavedFiles> read_saved_files(const std::string& directory);

// By a clone of the extents where the file system can (FICLONE: btrfs, xfs), else byte by byte, holes kept.
// `to` is empty and open for writing.
[[nodiscard]] Result<> copy_contents(int from, int to, std::uint64_t size);

// XXH3-64 of the XXH3-64 of each MiB, in their order.
[[nodiscard]] Result<std::uint64_t> contents_hash(int file);

// Extended attributes of an open file (those of `security.` and `system.` as far as they are shown).
[[nodiscard]] std::vector<schema::SavedAttribute> attributes_of(int file);

[[nodiscard]] inline std::int64_t time_in_ns(const timespec& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace cairn
