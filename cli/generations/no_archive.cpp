// For a build without libarchive.
#include "cli/generations/archive.h"

namespace cairn::generations {
namespace {

std::unexpected<Error> left_out(const std::string& what) {
    return fail_code(
        ExitCode::refused,
        "this cairn was built without libarchive, and {}; a generation's folder can be carried by tar(1) as "
        "well, and restarted where it is unpacked",
        what);
}

}  // namespace

Result<std::uint64_t> export_to(const std::string& file, const Generation& generation) {
    return left_out("can't write " + generation.folder + " into " + file);
}

Result<std::string> import_from(const std::string& file, const std::string& into) {
    return left_out("can't unpack " + file + " into " + into);
}

}  // namespace cairn::generations
