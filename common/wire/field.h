// How a message of the coordinator's protocols (docs/protocol.md, docs/capture-protocol.md) is described: a
// struct with its fields, as those of images are (common/schema/field.h), and a name, which is the field that
// tells messages apart and its value. Who reads one skips fields that he doesn't know. A member that is a
// std::optional, or is described by CAIRN_FIELD_OR, may be missing or null; every other one has to be there.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "common/error.h"
#include "common/ids_text.h"
#include "common/program_address.h"
#include "common/schema/field.h"

namespace cairn::wire {

using Json = nlohmann::json;
using schema::Struct;

struct Name {
    std::string_view field, value;
};

// Of all structs of this namespace (common/schema/convert.h): they may have fields that aren't known.
template <class T>
void is_open(const T&);

struct MayMiss {
    static constexpr bool may_be_missing = true;
};
struct MayMissWithin {
    static constexpr bool may_be_missing = true;
    std::int64_t least = 0, most = 0;
};

// JSON that is handed on as it is.
struct AnObject {
    static constexpr bool is_object = true;
};
struct MayMissObject {
    static constexpr bool may_be_missing = true, is_object = true;
};

#define CAIRN_FIELD_OR(name) f(std::string_view{#name}, s.name, ::cairn::wire::MayMiss{})
#define CAIRN_FIELD_OR_WITHIN(name, least, most) \
    f(std::string_view{#name}, s.name, ::cairn::wire::MayMissWithin{least, most})

#define CAIRN_FIELD_OBJECT(name) f(std::string_view{#name}, s.name, ::cairn::wire::AnObject{})
#define CAIRN_FIELD_OBJECT_OR(name) f(std::string_view{#name}, s.name, ::cairn::wire::MayMissObject{})

// With the message's name.
template <class M>
[[nodiscard]] Json pack(const M& message);
// Its name isn't looked at. Errors: ExitCode::usage, naming the message and the field.
template <class M>
[[nodiscard]] Result<M> unpack(const Json& message);
// For who shows what a coordinator of another version says: what is missing there, or of another type, has
// its default.
template <class M>
[[nodiscard]] M glean(const Json& message);

}  // namespace cairn::wire
