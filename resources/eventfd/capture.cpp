// eventfd(2): /proc/PID/fdinfo/N tells its count, and since Linux 6.5 whether it is a semaphore (proc(5)).
#include "resources/capture/table.h"

namespace cairn::capture {

Result<> describe_eventfd(Table& table, const Description& found, schema::Object& object) {
    if (!info_field(found.info, "eventfd-semaphore").has_value())
        table.note("{} is an eventfd: this kernel doesn't tell whether it is a semaphore", found.who());
    object.what = schema::Eventfd{info_number(found.info, "eventfd-count", 16),
                                  info_number(found.info, "eventfd-semaphore") != 0};
    return {};
}

}  // namespace cairn::capture
