// Whole image files, read and shown by cairn inspect: the first byte says whether the checksums are made
// right first.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/inspect_show.h"
#include "common/fd.h"
#include "common/image/reader.h"
#include "common/schema/json.h"
#include "resources/schema/json.h"
#include "test/fuzz/image_repair.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    using namespace cairn;
    if (size == 0) return 0;
    std::vector<std::uint8_t> data(bytes + 1, bytes + size);
    if ((bytes[0] & 1U) != 0) fuzz::repair_image(data);
    const Fd fd(::memfd_create("image", MFD_CLOEXEC));
    if (::write(fd.get(), data.data(), data.size()) != static_cast<ssize_t>(data.size())) return 0;
    const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
    auto checkpoint = inspect::load(path);
    if (!checkpoint) {
        if (checkpoint.error().code != ExitCode::damaged) std::abort();
        return 0;
    }
    (void)inspect::verify(*checkpoint);
    for (const Error& problem : checkpoint->problems)
        if (problem.code != ExitCode::damaged) std::abort();
    // Whatever it says, it is shown without harm, and no byte of it can steer the terminal.
    std::string text = inspect::process_tree(*checkpoint);
    for (const auto& each : checkpoint->processes)
        text += inspect::process_details(*checkpoint, each, {true, true, true, true});
    for (const auto& each : checkpoint->objects) text += inspect::object_list(each);
    if (text.find('\x1b') != std::string::npos) std::abort();
    (void)schema::dump(inspect::as_json(*checkpoint));
    return 0;
}
