#include "resources/schema/json.h"

#include <nlohmann/json.hpp>

#include "common/schema/convert.h"
#include "resources/schema/fields.h"

namespace cairn::schema {

using nlohmann::json;

json to_json(const Object& object) {
    return convert::write(object);
}
json to_json(const Objects& objects) {
    return convert::write(objects);
}

Result<Objects> objects_from_json(const json& value) {
    return convert::read_whole<Objects>(value, "objects");
}

Bytes encode(const Objects& objects) {
    return convert::encode(objects);
}

Result<Objects> decode_objects(std::span<const std::uint8_t> data) {
    return convert::decode<Objects>(data, "objects");
}

}  // namespace cairn::schema
