#include "common/image/reader.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstddef>

#include "common/image/hash.h"
#include "common/open_exactly.h"

namespace cairn {
namespace {

constexpr const char* use_another = "take another generation, or a copy of this file";

template <class T>
std::span<std::uint8_t> bytes_of(T& value) {
    return {reinterpret_cast<std::uint8_t*>(&value), sizeof(T)};
}

template <class T>
bool checksum_right(T& value) {
    return value.checksum == hash64(bytes_of(value).first(offsetof(T, checksum)));
}

}  // namespace

Result<ImageReader> ImageReader::open(const std::string& path) {
    const auto slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    auto opened = open_beneath(folder, slash == std::string::npos ? path : path.substr(slash + 1),
                               O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);
    if (!opened) return std::unexpected(std::move(opened.error()).in("opening image"));
    Fd fd = std::move(*opened);
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) return fail_errno("image {}", path);
    if (!S_ISREG(status.st_mode))
        return fail_code(ExitCode::damaged, "{} is not a cairn image: it is no regular file", path);
    ImageReader reader(std::move(fd), path);
    reader.device_ = status.st_dev;
    reader.inode_ = status.st_ino;
    reader.changed_ns_ = status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec;
    const auto size = static_cast<std::uint64_t>(status.st_size);
    CHECK_OK(reader.read_header(size));
    CHECK_OK(reader.read_footer(size));
    CHECK_OK(reader.read_sections());
    if (is_compressed(reader.header_.version)) CHECK_OK(reader.read_chunks());
    return reader;
}

bool says_compressed(const std::string& path) {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    ImageHeader header;
    return fd && ::pread(fd.get(), &header, sizeof header, 0) == sizeof header &&
           header.magic == image_magic && is_compressed(header.version);
}

Result<Fd> ImageReader::open_again() const {
    Fd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return fail_errno("opening image {} again", path_);
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) return fail_errno("image {}", path_);
    if (status.st_dev != device_ || status.st_ino != inode_ ||
        status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec != changed_ns_)
        return fail_code(ExitCode::damaged, "image {} was changed while it was used: {}", path_, use_another);
    return fd;
}

Result<> ImageReader::read_at(std::uint64_t offset, std::span<std::uint8_t> to) const {
    while (!to.empty()) {
        const ssize_t count = ::pread(fd_.get(), to.data(), to.size(), static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return fail_errno("reading image {} at byte {}", path_, offset);
        if (count == 0)
            return fail_code(ExitCode::damaged, "image {} was cut while it was read: {}", path_, use_another);
        to = to.subspan(static_cast<std::size_t>(count));
        offset += static_cast<std::uint64_t>(count);
    }
    return {};
}

Result<> ImageReader::read_header(std::uint64_t size) {
    if (size == 0) return fail_code(ExitCode::damaged, "image {} is empty: {}", path_, use_another);
    const std::uint64_t there = std::min<std::uint64_t>(size, sizeof header_);
    CHECK_OK(read_at(0, bytes_of(header_).first(there)));
    if (there < sizeof header_.magic || header_.magic != image_magic)
        return fail_code(ExitCode::damaged, "{} is not a cairn image", path_);
    if (there < sizeof header_)
        return fail_code(ExitCode::damaged, "image {} is cut: it ends within its header: {}", path_,
                         use_another);
    // Before anything else of the header is believed; a file of the other byte order has a right checksum of
    // its own.
    if (header_.byte_order == std::byteswap(byte_order_mark))
        return fail_code(ExitCode::damaged,
                         "image {} was written by a big-endian machine; this cairn reads x86-64 images only",
                         path_);
    if (!checksum_right(header_))
        return fail_code(ExitCode::damaged, "image {}: the header is damaged (checksum): {}", path_,
                         use_another);
    if (header_.version < image_version_of_bytes || header_.version > image_version_compressed)
        return fail_code(ExitCode::damaged,
                         "image {} has format version {}, this cairn reads versions {} to {}: use the cairn "
                         "that wrote it",
                         path_, header_.version, image_version_of_bytes, image_version_compressed);
    if (header_.byte_order != byte_order_mark || header_.architecture != architecture_x86_64)
        return fail_code(
            ExitCode::damaged,
            "image {} is of architecture {} (ELF machine number), this cairn reads x86-64 ({}) only", path_,
            header_.architecture, architecture_x86_64);
    if (header_.page_size != image_page)
        return fail_code(ExitCode::damaged, "image {} has pages of {} bytes, this cairn reads {} only", path_,
                         header_.page_size, image_page);
    if (header_.kind != ImageKind::process && header_.kind != ImageKind::objects)
        return fail_code(ExitCode::damaged, "image {} is of kind {}, which this cairn doesn't know", path_,
                         static_cast<std::uint32_t>(header_.kind));
    return {};
}

Result<> ImageReader::read_footer(std::uint64_t size) {
    const auto cut = [&] {
        return fail_code(ExitCode::damaged,
                         "image {} is cut or was never finished (no footer at its end, {} bytes): {}", path_,
                         size, use_another);
    };
    if (size < image_page + sizeof footer_) return cut();
    CHECK_OK(read_at(size - sizeof footer_, bytes_of(footer_)));
    const bool right = checksum_right(footer_);
    if (!right && footer_.magic != footer_magic) return cut();
    if (!right)
        return fail_code(ExitCode::damaged, "image {}: the footer is damaged (checksum): {}", path_,
                         use_another);
    const auto wrong = [&](const char* what) {
        return fail_code(ExitCode::damaged, "image {}: the footer is damaged ({}): {}", path_, what,
                         use_another);
    };
    if (footer_.magic != footer_magic) return wrong("magic");
    if (footer_.id != header_.id) return wrong("it belongs to another image");
    if (footer_.file_size != size) return wrong("size of the file");
    if (footer_.entry_size != sizeof(SectionEntry) || footer_.section_count > image_max_sections)
        return wrong("section table");
    const std::uint64_t table_bytes = std::uint64_t{footer_.section_count} * sizeof(SectionEntry);
    const std::uint64_t table_end = size - sizeof footer_;
    if (footer_.table_offset > table_end || table_end - footer_.table_offset != table_bytes)
        return wrong("place of the section table");
    if (footer_.data_end < image_page || footer_.data_end % image_page != 0 ||
        footer_.data_end > footer_.table_offset)
        return wrong("end of the page data");
    return {};
}

Result<> ImageReader::read_sections() {
    std::vector<SectionEntry> table(footer_.section_count);
    const std::span<std::uint8_t> table_bytes(reinterpret_cast<std::uint8_t*>(table.data()),
                                              table.size() * sizeof(SectionEntry));
    CHECK_OK(read_at(footer_.table_offset, table_bytes));
    if (hash64(table_bytes) != footer_.table_checksum)
        return fail_code(ExitCode::damaged, "image {}: the section table is damaged (checksum): {}", path_,
                         use_another);
    for (const SectionEntry& entry : table) {
        const std::string name = section_name(entry.type);
        if (entry.offset < footer_.data_end || entry.offset > footer_.table_offset ||
            entry.length > footer_.table_offset - entry.offset || entry.length > image_max_section)
            return fail_code(ExitCode::damaged, "image {}: section {} lies outside of the file: {}", path_,
                             name, use_another);
        Section section{entry.type, entry.offset, schema::Bytes(entry.length)};
        CHECK_OK(read_at(entry.offset, section.data));
        if (hash64(section.data) != entry.checksum)
            return fail_code(ExitCode::damaged, "image {}: section {} is damaged (checksum): {}", path_, name,
                             use_another);
        sections_.push_back(std::move(section));
    }
    return {};
}

Result<> ImageReader::read_chunks() {
    auto table = ChunkTable::parse(TRY(section(SectionType::chunks)), footer_.data_end);
    if (!table)
        return fail_code(ExitCode::damaged, "image {}: section {}: {}: {}", path_,
                         section_name(SectionType::chunks), table.error().what, use_another);
    chunks_ = std::make_shared<const ChunkTable>(*std::move(table));
    return {};
}

Result<> ImageReader::expect(ImageKind kind) const {
    if (header_.kind == kind) return {};
    return fail_code(ExitCode::damaged, "image {} is of kind '{}', '{}' was expected", path_,
                     kind_name(header_.kind), kind_name(kind));
}

Result<std::span<const std::uint8_t>> ImageReader::section(SectionType type) const {
    for (const Section& each : sections_)
        if (each.type == type) return std::span<const std::uint8_t>(each.data);
    return fail_code(ExitCode::damaged, "image {} has no section {}: {}", path_, section_name(type),
                     use_another);
}

template <class Place>
Result<> ImageReader::check_run(const schema::RunOf<Place>& run) const {
    const bool aligned = run.at % image_page == 0 && (run.length | run.offset) % image_page == 0;
    if (!aligned || run.length == 0 || run.length > image_max_run || run.offset < image_page ||
        run.offset > pages_end() || run.length > pages_end() - run.offset)
        return fail_code(ExitCode::damaged,
                         "image {}: pages at {:#x} (offset {}, {} bytes) lie outside of the page data", path_,
                         run.at, run.offset, run.length);
    return {};
}

template Result<> ImageReader::check_run(const schema::PageRun& run) const;
template Result<> ImageReader::check_run(const schema::ObjectRun& run) const;

}  // namespace cairn
