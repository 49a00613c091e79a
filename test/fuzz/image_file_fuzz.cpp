// Whole image files: the first byte says whether the checksums are made right first.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "common/fd.h"
#include "common/image/reader.h"
#include "test/fuzz/image_repair.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    using namespace cairn;
    if (size == 0) return 0;
    std::vector<std::uint8_t> data(bytes + 1, bytes + size);
    if ((bytes[0] & 1U) != 0) fuzz::repair_image(data);
    const Fd fd(::memfd_create("image", MFD_CLOEXEC));
    if (::write(fd.get(), data.data(), data.size()) != static_cast<ssize_t>(data.size())) return 0;
    const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
    if (const auto image = open_process_image(path))
        for (const auto& area : image->process.areas)
            if (const auto good = verify_pages(image->reader, area.pages, 1);
                !good && good.error().code != ExitCode::damaged)
                std::abort();
    if (const auto image = open_objects_image(path))
        for (const auto& object : image->objects.objects)
            (void)verify_pages(image->reader, object.pages, 1).has_value();
    return 0;
}
