// Schema structs to and from JSON and MessagePack.
//
// A reader takes a field that is missing as its default and ignores one that it doesn't know, so that images
// of older and (where only fields were added) newer programs can be read. A field of the wrong type or out of
// range is an error that names the field. Enumerations are strings. Only json.cpp includes the big templates;
// include <nlohmann/json.hpp> yourself where you look into a value.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "common/error.h"
#include "common/schema/manifest.h"
#include "common/schema/object.h"
#include "common/schema/process.h"

namespace cairn::schema {

// As shown to people and other programs: Bytes are JSON binary values (see dump), a run of pages is [address,
// length, offset, hash].
[[nodiscard]] nlohmann::json to_json(const Process& process);
[[nodiscard]] nlohmann::json to_json(const Thread& thread);
[[nodiscard]] nlohmann::json to_json(const Area& area);
[[nodiscard]] nlohmann::json to_json(const Object& object);
[[nodiscard]] nlohmann::json to_json(const Objects& objects);
[[nodiscard]] nlohmann::json to_json(const Manifest& manifest);

// Errors: ExitCode::damaged, naming the field.
[[nodiscard]] Result<Process> process_from_json(const nlohmann::json& value);
[[nodiscard]] Result<Objects> objects_from_json(const nlohmann::json& value);
[[nodiscard]] Result<Manifest> manifest_from_json(const nlohmann::json& value);

// As text. Bytes become strings of hexadecimal digits, what is not UTF-8 in a string U+FFFD (names of files
// and processes are bytes to the kernel). indent < 0: one line.
[[nodiscard]] std::string dump(const nlohmann::json& value, int indent = 2);

// MessagePack, as in the sections of an image. A list of page runs is one binary value: 32 bytes for each
// run, address, length, offset, hash, each 64-bit little-endian. Decoding allocates in proportion to the
// input only, whatever lengths it states.
[[nodiscard]] Bytes encode(const Process& process);
[[nodiscard]] Bytes encode(const Objects& objects);
[[nodiscard]] Result<Process> decode_process(std::span<const std::uint8_t> data);
[[nodiscard]] Result<Objects> decode_objects(std::span<const std::uint8_t> data);

}  // namespace cairn::schema
