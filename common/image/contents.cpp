// Decoded contents of an image, checked for what the rest of cairn relies on.
#include "common/image/reader.h"
#include "common/schema/image_name.h"
#include "common/schema/json.h"

namespace cairn {

template <class Place>
Result<> check_runs(const ImageReader& reader, const std::vector<schema::RunOf<Place>>& runs, Place start,
                    Place end) {
    Place at = start;
    for (const auto& run : runs) {
        CHECK_OK(reader.check_run(run));
        if (run.at < at || run.at > end || run.length > end - run.at)
            return fail_code(ExitCode::damaged,
                             "image {}: pages at {:#x} ({} bytes) don't lie in order within {:#x}-{:#x}",
                             reader.path(), run.at, run.length, start, end);
        at = run.at + run.length;
    }
    return {};
}

template Result<> check_runs(const ImageReader&, const std::vector<schema::PageRun>&, ProgramAddress,
                             ProgramAddress);
template Result<> check_runs(const ImageReader&, const std::vector<schema::ObjectRun>&, std::uint64_t,
                             std::uint64_t);

namespace {

// Whether the other image has them is seen when they are read.
Result<> check_borrowed(const ImageReader& reader, const schema::Area& area) {
    for (const auto& part : *area.borrowed) {
        if (part.file && !schema::is_plain_name(*part.file))
            return fail_code(
                ExitCode::damaged,
                "image {}: pages of process {} are said to be in '{}', which is no file in its folder",
                reader.path(), part.from, *part.file);
        ProgramAddress at = area.start;
        for (const auto& run : part.pages) {
            if (run.at < at || run.at > area.end || run.length > area.end - run.at || run.length == 0 ||
                run.at % image_page != 0 || run.length % image_page != 0 || run.offset % image_page != 0)
                return fail_code(
                    ExitCode::damaged,
                    "image {}: pages of process {} at {:#x} ({} bytes) don't lie in order within "
                    "{:#x}-{:#x}",
                    reader.path(), part.from, run.at, run.length, area.start, area.end);
            at = run.at + run.length;
        }
    }
    return {};
}

Result<> check_areas(const ImageReader& reader, const schema::Process& process) {
    ProgramAddress at;
    for (const schema::Area& area : process.areas) {
        if (area.start % image_page != 0 || area.end % image_page != 0 || area.start >= area.end ||
            area.start < at)
            return fail_code(ExitCode::damaged,
                             "image {}: area {:#x}-{:#x} is out of order or not of whole pages",
                             reader.path(), area.start, area.end);
        at = area.end;
        CHECK_OK(check_runs(reader, area.pages, area.start, area.end));
        if (area.borrowed) CHECK_OK(check_borrowed(reader, area));
        for (const auto& [address, length] : area.guards)
            if (address % image_page != 0 || length % image_page != 0 || address < area.start ||
                address > area.end || length > area.end - address)
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
