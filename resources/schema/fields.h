// The fields of what is saved of kernel objects (common/schema/field.h tells how they are described).
#pragma once

#include "common/schema/fields.h"
#include "resources/schema/object.h"

namespace cairn::schema {

template <Struct<Object> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(id);
    CAIRN_FIELD(path);
    CAIRN_FIELD(deleted);
    CAIRN_FIELD(identity);
    CAIRN_FIELD(flags);
    CAIRN_FIELD(position);
    CAIRN_FIELD(owner);
    CAIRN_FIELD(owner_type);
    CAIRN_FIELD(owner_signal);
    CAIRN_FIELD(maker);
    CAIRN_FIELD(maker_group);
    CAIRN_FIELD(standard);
    CAIRN_FIELD(outside);
    CAIRN_FIELD(backing);
    CAIRN_FIELD(pipe);
    CAIRN_FIELD_WITHIN(network, -1, INT64_MAX);
    CAIRN_FIELD(contents);
    CAIRN_FIELD(what);
}

template <Struct<Objects> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(cid);
    CAIRN_FIELD(np);
    CAIRN_FIELD(objects);
}

}  // namespace cairn::schema
