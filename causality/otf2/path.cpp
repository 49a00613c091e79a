// Which paths are OTF2 traces; and what is said where cairn was built without OTF2.
#include <filesystem>

#include "causality/otf2/otf2.h"

#ifndef CAIRN_OTF2
namespace cairn::causality {
namespace {

std::unexpected<Error> without_otf2() {
    return fail("this cairn was built without OTF2: install libotf2-trace-dev and build it again");
}

}  // namespace

Result<std::unique_ptr<MemoryTrace>> read_otf2(const std::string&) {
    return without_otf2();
}
Result<> write_otf2(TraceSource&, const std::string&) {
    return without_otf2();
}

}  // namespace cairn::causality
#endif

namespace cairn::causality {

bool is_otf2(const std::string& path) {
    std::error_code ignored;
    return path.ends_with(".otf2") || std::filesystem::exists(path + "/traces.otf2", ignored);
}

}  // namespace cairn::causality
