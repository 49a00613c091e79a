// signalfd(2): /proc/PID/fdinfo/N tells its signals (proc(5)).
#include "resources/capture/table.h"

namespace cairn::capture {

Result<> describe_signalfd(Table&, const Description& found, schema::Object& object) {
    object.what = schema::Signalfd{info_number(found.info, "sigmask", 16)};
    return {};
}

}  // namespace cairn::capture
