// MessagePack of a process or of objects. What can be read is written and read again, and must be the same.
#include <cstdlib>

#include "common/schema/json.h"
#include "resources/schema/json.h"

namespace {

using namespace cairn;

template <class Decode>
void round_trip(std::span<const std::uint8_t> data, Decode decode) {
    const auto first = decode(data);
    if (!first) {
        if (first.error().code != ExitCode::damaged) std::abort();
        return;
    }
    const schema::Bytes encoded = schema::encode(*first);
    const auto second = decode(encoded);
    if (!second || schema::encode(*second) != encoded) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    const std::span data(bytes, size);
    round_trip(data, [](std::span<const std::uint8_t> from) { return schema::decode_process(from); });
    round_trip(data, [](std::span<const std::uint8_t> from) { return schema::decode_objects(from); });
    return 0;
}
