// What is saved of kernel objects, to and from JSON and MessagePack: as common/schema/json.h says of
// processes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "common/error.h"
#include "resources/schema/object.h"

namespace cairn::schema {

[[nodiscard]] nlohmann::json to_json(const Object& object);
[[nodiscard]] nlohmann::json to_json(const Objects& objects);

// Errors: ExitCode::damaged, naming the field.
[[nodiscard]] Result<Objects> objects_from_json(const nlohmann::json& value);

[[nodiscard]] Bytes encode(const Objects& objects);
[[nodiscard]] Result<Objects> decode_objects(std::span<const std::uint8_t> data);

}  // namespace cairn::schema
