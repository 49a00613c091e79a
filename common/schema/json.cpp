#include "common/schema/json.h"

#include <nlohmann/json.hpp>

#include "common/json_text.h"
#include "common/schema/convert.h"
#include "common/schema/fields.h"

namespace cairn::schema {
namespace {

using nlohmann::json;

// Text JSON has no binary type.
void binary_to_hex(json& value) {
    if (value.is_binary()) {
        std::string digits;
        for (const std::uint8_t byte : value.get_binary()) digits += fmt::format("{:02x}", byte);
        value = std::move(digits);
    } else if (value.is_structured()) {
        for (json& each : value) binary_to_hex(each);
    }
}

}  // namespace

using convert::decode, convert::write;

json to_json(const Process& process) {
    return write(process);
}
json to_json(const Thread& thread) {
    return write(thread);
}
json to_json(const Area& area) {
    return write(area);
}
json to_json(const Manifest& manifest) {
    return write(manifest);
}

Result<Process> process_from_json(const json& value) {
    return convert::read_whole<Process>(value, "process");
}
Result<Manifest> manifest_from_json(const json& value) {
    return convert::read_whole<Manifest>(value, "manifest");
}

std::string dump(const json& value, int indent) {
    json copy = value;
    binary_to_hex(copy);
    return json_text(copy, indent);
}

Bytes encode(const Process& process) {
    return convert::encode(process);
}

Result<Process> decode_process(std::span<const std::uint8_t> data) {
    return decode<Process>(data, "process");
}

}  // namespace cairn::schema
