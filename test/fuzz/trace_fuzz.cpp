// Both readers of traces, and the pass behind them: anything is either refused as damaged or makes sense. The
// first byte says which form; for the binary one also whether checksums are made right first.
// CAIRN_TRACE_LINES is 1 for JSON lines.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "causality/computation.h"
#include "causality/pattern.h"
#include "causality/places.h"
#include "causality/trace_json.h"
#include "causality/trace_reader.h"
#include "common/image/hash.h"

namespace {

using namespace cairn;
using namespace cairn::causality;

void use(TraceSource& source) {
    // The number of processes is in the header: a small file may claim a million.
    if (source.processes() > 64) return;
    const auto loaded = Computation::load(source);
    if (!loaded) {
        if (loaded.error().code != ExitCode::damaged || loaded.error().what.empty()) std::abort();
        return;
    }
    const ClockTable clocks(*loaded), sends(*loaded, Tick::transmissions);
    for (Index e = 0; e < loaded->size() && e < 50; ++e) {
        if (!consistent(*loaded, clocks, earliest_after(*loaded, clocks, e))) std::abort();
        if (!consistent(*loaded, clocks, latest_before(*loaded, clocks, e))) std::abort();
        if (clocks.before(0, e) != sends.before(0, e)) std::abort();
    }
    const Places places(*loaded);
    if (const auto first = places.first(); first && !places.is_place(*first)) std::abort();
    for (const auto& each : places.best(3, 0))
        if (!places.is_place(each.cut)) std::abort();
    for (const auto& each : places.lines())
        if (!places.is_place(each.cut)) std::abort();
    const Pattern pattern = pattern_of(*loaded);
    const Zigzag graph(pattern);
    if (graph.dates().has_value() != graph.z_cycle_free()) std::abort();
    static_cast<void>(trackable(pattern, graph));
}

void lines(std::string_view text) {
    auto trace = parse_trace_lines(text, "fuzz");
    if (!trace) {
        if (trace.error().code != ExitCode::damaged) std::abort();
        return;
    }
    use(**trace);
}

// Makes the checksums of all blocks right, as far as their lengths lead.
void repair(std::vector<std::uint8_t>& bytes) {
    const auto fix = [&](auto header, std::size_t at) {
        std::memcpy(&header, bytes.data() + at, sizeof header);
        if constexpr (requires { header.payload_checksum; }) {
            header.magic = block_magic;
            header.bytes = static_cast<std::uint32_t>(
                std::min<std::size_t>(header.bytes, bytes.size() - at - sizeof header));
            header.payload_checksum = hash64({bytes.data() + at + sizeof header, header.bytes});
        } else {
            header.magic = trace_magic;
            header.version = trace_version;
            header.processes = header.processes % 8 + 1;
        }
        header.checksum = checksum_of(header);
        std::memcpy(bytes.data() + at, &header, sizeof header);
        return header;
    };
    if (bytes.size() < sizeof(TraceHeader)) return;
    fix(TraceHeader{}, 0);
    for (std::size_t at = sizeof(TraceHeader); at + sizeof(BlockHeader) <= bytes.size();)
        at += sizeof(BlockHeader) + fix(BlockHeader{}, at).bytes;
}

void binary(std::vector<std::uint8_t> bytes, bool repaired) {
    if (repaired) repair(bytes);
    static const int fd = ::memfd_create("trace", 0);
    static const std::string paths[] = {"/proc/self/fd/" + std::to_string(fd)};
    if (::ftruncate(fd, 0) != 0 ||
        ::pwrite(fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
        std::abort();
    auto reader = TraceReader::open(paths);
    if (!reader) {
        if (reader.error().code != ExitCode::damaged) std::abort();
        return;
    }
    if ((*reader)->events() < 5000) use(**reader);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    if (size == 0) return 0;
    if (CAIRN_TRACE_LINES != 0)
        lines({reinterpret_cast<const char*>(bytes) + 1, size - 1});
    else
        binary({bytes + 1, bytes + size}, (bytes[0] & 1U) != 0);
    return 0;
}
