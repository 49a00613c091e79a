#include "capture/objects/table.h"
#include "common/schema/extra.h"

namespace cairn::capture {

// fdinfo: proc(5). The semaphore flag is there since Linux 6.5.
Result<> describe_eventfd(Table& table, const Description& found, schema::Object& object) {
    const bool known = info_field(found.info, "eventfd-semaphore").has_value();
    if (!known)
        table.note("{} is an eventfd: this kernel doesn't tell whether it is a semaphore", found.who());
    object.extra = schema::pack({{"count", info_number(found.info, "eventfd-count", 16)},
                                 {"semaphore", info_number(found.info, "eventfd-semaphore") != 0}});
    return {};
}

}  // namespace cairn::capture
