// Decoded contents of an image, checked for what the rest of cairn relies on.
#include "common/image/reader.h"
#include "common/schema/json.h"

namespace cairn {

Result<> check_runs(const ImageReader& reader, std::span<const schema::PageRun> runs, std::uint64_t start,
                    std::uint64_t end) {
    std::uint64_t at = start;
    for (const schema::PageRun& run : runs) {
        CHECK_OK(reader.check_run(run));
        if (run.address < at || run.address > end || run.length > end - run.address)
            return fail_code(ExitCode::damaged,
                             "image {}: pages at {:#x} ({} bytes) don't lie in order within {:#x}-{:#x}",
                             reader.path(), run.address, run.length, start, end);
        at = run.address + run.length;
    }
    return {};
}

namespace {

Result<> check_areas(const ImageReader& reader, const schema::Process& process) {
    std::uint64_t at = 0;
    for (const schema::Area& area : process.areas) {
        if (area.start % image_page != 0 || area.end % image_page != 0 || area.start >= area.end ||
            area.start < at)
            return fail_code(ExitCode::damaged,
                             "image {}: area {:#x}-{:#x} is out of order or not of whole pages",
                             reader.path(), area.start, area.end);
        at = area.end;
        CHECK_OK(check_runs(reader, area.pages, area.start, area.end));
        for (const auto& [address, length] : area.guards)
            if ((address | length) % image_page != 0 || address < area.start || address > area.end ||
                length > area.end - address)
                return fail_code(ExitCode::damaged,
                                 "image {}: guard pages at {:#x} lie outside of area {:#x}-{:#x}",
                                 reader.path(), address, area.start, area.end);
    }
    return {};
}

}  // namespace

Result<ProcessImage> open_process_image(const std::string& path) {
    auto reader = TRY(ImageReader::open(path));
    CHECK_OK(reader.expect(ImageKind::process));
    const auto meta = TRY(reader.section(SectionType::meta));
    auto process = schema::decode_process(meta);
    if (!process) return std::unexpected(std::move(process).error().in("image " + path + ": section META"));
    CHECK_OK(check_areas(reader, *process));
    return ProcessImage{std::move(reader), *std::move(process)};
}

}  // namespace cairn
