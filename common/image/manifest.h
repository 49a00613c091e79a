// manifest.json: the table of contents of a checkpoint's folder.
//
// JSON text with one field more than schema::Manifest: "checksum", 16 hexadecimal digits, XXH3-64 of the
// whole file as it is when these digits are zeros. So it needs no canonical form, and any changed byte is
// noticed.
#pragma once

#include <string>

#include "common/error.h"
#include "common/schema/manifest.h"

namespace cairn {

inline constexpr const char* manifest_file = "manifest.json";
// Beside it, of a checkpoint that was taken with --witness: what cairn-witness has seen just before.
inline constexpr const char* looks_file = "witness.json";
inline constexpr int manifest_version = 1;

// Writes manifest.json (0600) into the folder and syncs it; the folder itself is for the caller to sync.
// Written under another name and renamed, so that it is whole or not there. Bytes that aren't UTF-8 (in names
// of processes) become U+FFFD.
[[nodiscard]] Result<> write_manifest(int dirfd, const schema::Manifest& manifest);

// The text of a manifest, and back. `where` is what messages call it.
[[nodiscard]] std::string manifest_text(const schema::Manifest& manifest);
[[nodiscard]] Result<schema::Manifest> parse_manifest(std::string text, const std::string& where);

// Reads and checks DIRECTORY/manifest.json: checksum, version, and that each image is there with the size
// stated. Errors: ExitCode::damaged naming the file and what to do.
[[nodiscard]] Result<schema::Manifest> read_manifest(const std::string& directory);

}  // namespace cairn
