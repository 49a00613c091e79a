// How messages become JSON and come back, by the description of their fields. For the sources of this folder:
// they alone include it, for it is big.
#pragma once

#include "common/schema/convert.h"
#include "common/wire/field.h"

namespace cairn::wire {

template <class M>
Json pack(const M& message) {
    Json object = schema::convert::write(message);
    if (!M::name.field.empty()) object[std::string(M::name.field)] = std::string(M::name.value);
    return object;
}

template <class M>
Result<M> unpack(const Json& from) {
    M message;
    try {
        schema::convert::read(from, message);
    } catch (const schema::convert::Wrong& problem) {
        return fail_code(ExitCode::usage, "{}{}{} {}", M::name.value, M::name.value.empty() ? "" : ": ",
                         problem.where, problem.what);
    }
    return message;
}

template <class M>
M glean(const Json& from) {
    M message;
    if (!from.is_object()) return message;
    fields(message, [&]<class T>(std::string_view name, T& member, auto...) {
        const auto found = from.find(name);
        if (found == from.end()) return;
        try {
            T value{};
            if constexpr (schema::convert::IsOptional<T>::value)
                schema::convert::read(*found, value.emplace());
            else
                schema::convert::read(*found, value);
            member = std::move(value);
        } catch (const schema::convert::Wrong&) {
            return;
        }
    });
    return message;
}

#define CAIRN_MESSAGE(name)                         \
    template Json pack(const name&);                \
    template Result<name> unpack(const Json& from); \
    template name glean(const Json& from)

}  // namespace cairn::wire
