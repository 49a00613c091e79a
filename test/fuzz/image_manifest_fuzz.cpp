// The text of a manifest: the first byte says whether the checksum is made right first.
#include <cstdlib>

#include "common/image/hash.h"
#include "common/image/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    using namespace cairn;
    if (size == 0) return 0;
    std::string text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
    constexpr std::string_view key = "\"checksum\": \"";
    const std::size_t at = text.find(key);
    if ((bytes[0] & 1U) != 0 && at != std::string::npos && text.size() - at >= key.size() + 16) {
        text.replace(at + key.size(), 16, 16, '0');
        const auto sum = hash64({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
        text.replace(at + key.size(), 16, fmt::format("{:016x}", sum));
    }
    const auto manifest = parse_manifest(text, "fuzz");
    if (!manifest) {
        if (manifest.error().code != ExitCode::damaged) std::abort();
    } else if (!parse_manifest(manifest_text(*manifest), "again")) {
        std::abort();
    }
    return 0;
}
