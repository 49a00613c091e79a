#include "capture/objects/table.h"
#include "common/schema/extra.h"

namespace cairn::capture {

Result<> describe_signalfd(Table&, const Description& found, schema::Object& object) {
    object.extra = schema::pack({{"mask", info_number(found.info, "sigmask", 16)}});
    return {};
}

}  // namespace cairn::capture
