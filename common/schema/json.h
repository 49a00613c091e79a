// Schema structs to and from JSON and MessagePack.
//
// A reader demands every field that isn't optional, and refuses one that it doesn't know, or that is of
// another type or out of range: the error names the field. (Of a manifest it takes what it knows.)
// Enumerations are strings. Only convert.h has the big templates; include <nlohmann/json.hpp> yourself where
// you look into a value.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "common/error.h"
#include "common/schema/manifest.h"
#include "common/schema/process.h"

namespace cairn::schema {

// As shown to people and other programs: Bytes are JSON binary values (see dump), a run of pages is [address,
// length, offset, hash].
[[nodiscard]] nlohmann::json to_json(const Process& process);
[[nodiscard]] nlohmann::json to_json(const Thread& thread);
[[nodiscard]] nlohmann::json to_json(const Area& area);
[[nodiscard]] nlohmann::json to_json(const Manifest& manifest);

// Errors: ExitCode::damaged, naming the field.
[[nodiscard]] Result<Process> process_from_json(const nlohmann::json& value);
[[nodiscard]] Result<Manifest> manifest_from_json(const nlohmann::json& value);

// As text. Bytes become strings of hexadecimal digits, what is not UTF-8 in a string U+FFFD (names of files
// and processes are bytes to the kernel). indent < 0: one line.
[[nodiscard]] std::string dump(const nlohmann::json& value, int indent = 2);

// MessagePack, as in the sections of an image. A list of page runs is one binary value: 32 bytes for each
// run, address, length, offset, hash, each 64-bit little-endian. Decoding allocates in proportion to the
// input only, whatever lengths it states.
[[nodiscard]] Bytes encode(const Process& process);
[[nodiscard]] Result<Process> decode_process(std::span<const std::uint8_t> data);

}  // namespace cairn::schema
