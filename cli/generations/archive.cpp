#include "cli/generations/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "cli/generations/verify.h"
#include "common/fd.h"
#include "common/image/manifest.h"

namespace cairn::generations {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t block_bytes = std::size_t{1} << 20;

struct FreeReader {
    void operator()(archive* reader) const { archive_read_free(reader); }
};
struct FreeWriter {
    void operator()(archive* writer) const { archive_write_free(writer); }
};
using Reader = std::unique_ptr<archive, FreeReader>;
using Writer = std::unique_ptr<archive, FreeWriter>;

std::unexpected<Error> failed(archive* which, const std::string& what, ExitCode code = ExitCode::failed) {
    const char* said = archive_error_string(which);
    return fail_code(code, "{}: {}", what, said == nullptr ? "unknown" : said);
}

bool ends(const std::string& file, std::initializer_list<std::string_view> endings) {
    for (const auto ending : endings)
        if (file.ends_with(ending)) return true;
    return false;
}

Result<> copy_data(archive* from, archive* to, const std::string& what) {
    for (;;) {
        const void* data = nullptr;
        std::size_t size = 0;
        la_int64_t offset = 0;
        const int got = archive_read_data_block(from, &data, &size, &offset);
        if (got == ARCHIVE_EOF) return {};
        if (got != ARCHIVE_OK) return failed(from, what, ExitCode::damaged);
        if (archive_write_data_block(to, data, size, offset) < ARCHIVE_OK) return failed(to, what);
    }
}

// A tar archive has no blocks at offsets: holes that it doesn't list are written as zeros.
Result<> put_data(archive* from, archive* to, const std::string& what) {
    la_int64_t done = 0;
    const std::string zeros(block_bytes, '\0');
    for (;;) {
        const void* data = nullptr;
        std::size_t size = 0;
        la_int64_t offset = 0;
        const int got = archive_read_data_block(from, &data, &size, &offset);
        if (got == ARCHIVE_EOF) return {};
        if (got != ARCHIVE_OK) return failed(from, what);
        while (done < offset) {
            const auto some = std::min<std::size_t>(zeros.size(), static_cast<std::size_t>(offset - done));
            if (archive_write_data(to, zeros.data(), some) < 0) return failed(to, what);
            done += static_cast<la_int64_t>(some);
        }
        if (archive_write_data(to, data, size) < 0) return failed(to, what);
        done += static_cast<la_int64_t>(size);
    }
}

Result<> put_tree(archive* to, const Generation& generation) {
    const auto root = fs::path(generation.computation).parent_path();
    const Reader disk(archive_read_disk_new());
    if (archive_read_disk_open(disk.get(), generation.folder.c_str()) != ARCHIVE_OK)
        return failed(disk.get(), generation.folder);
    const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(),
                                                                         archive_entry_free);
    for (;;) {
        archive_entry_clear(entry.get());
        const int got = archive_read_next_header2(disk.get(), entry.get());
        if (got == ARCHIVE_EOF) return {};
        if (got != ARCHIVE_OK) return failed(disk.get(), generation.folder);
        archive_read_disk_descend(disk.get());
        const std::string path = archive_entry_pathname(entry.get());
        archive_entry_set_pathname(entry.get(), fs::path(path).lexically_relative(root).c_str());
        if (archive_write_header(to, entry.get()) < ARCHIVE_WARN) return failed(to, path);
        if (archive_entry_size(entry.get()) > 0) CHECK_OK(put_data(disk.get(), to, path));
    }
}

Result<> write_archive(int fd, const std::string& file, const Generation& generation) {
    const Writer tar(archive_write_new());
    archive_write_set_format_pax_restricted(tar.get());
    int filter = ARCHIVE_OK;
    if (ends(file, {".zst", ".tzst"})) filter = archive_write_add_filter_zstd(tar.get());
    if (ends(file, {".gz", ".tgz"})) filter = archive_write_add_filter_gzip(tar.get());
    if (filter != ARCHIVE_OK || archive_write_open_fd(tar.get(), fd) != ARCHIVE_OK)
        return failed(tar.get(), file);
    CHECK_OK(put_tree(tar.get(), generation));
    if (archive_write_close(tar.get()) != ARCHIVE_OK) return failed(tar.get(), file);
    return {};
}

std::string text_of(const fs::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

// Files and folders, nothing else, and all of them below where they are unpacked.
Result<> unpack(archive* tar, const fs::path& below, const std::string& file) {
    const Writer disk(archive_write_disk_new());
    archive_write_disk_set_options(disk.get(), ARCHIVE_EXTRACT_PERM | ARCHIVE_EXTRACT_TIME |
                                                   ARCHIVE_EXTRACT_SECURE_NODOTDOT |
                                                   ARCHIVE_EXTRACT_SECURE_SYMLINKS | ARCHIVE_EXTRACT_SPARSE);
    for (archive_entry* entry = nullptr;;) {
        const int got = archive_read_next_header(tar, &entry);
        if (got == ARCHIVE_EOF) return {};
        if (got < ARCHIVE_WARN) return failed(tar, file, ExitCode::damaged);
        const char* name = archive_entry_pathname(entry);
        const auto type = archive_entry_filetype(entry);
        if (name == nullptr || fs::path(name).is_absolute() || archive_entry_hardlink(entry) != nullptr ||
            (type != AE_IFREG && type != AE_IFDIR))
            return fail_code(ExitCode::damaged, "{} is no archive of `cairn export`: there is {} in it", file,
                             name == nullptr ? "a thing without a name" : name);
        const std::string path = below / name;
        archive_entry_set_pathname(entry, path.c_str());
        // Nobody else may write it, or the restart refuses it.
        archive_entry_set_perm(entry, archive_entry_perm(entry) & 0700);
        if (archive_write_header(disk.get(), entry) < ARCHIVE_WARN) return failed(disk.get(), path);
        CHECK_OK(copy_data(tar, disk.get(), path));
        if (archive_write_finish_entry(disk.get()) < ARCHIVE_WARN) return failed(disk.get(), path);
    }
}

// A folder that goes with its owner.
class Scratch {
  public:
    explicit Scratch(const std::string& in) : path_(in + "/.cairn-import-XXXXXX") {
        if (::mkdtemp(path_.data()) == nullptr) path_.clear();
    }
    ~Scratch() {
        std::error_code ignored;
        if (!path_.empty()) fs::remove_all(path_, ignored);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
};

Result<std::string> put_in_place(const Generation& unpacked, const fs::path& into) {
    const auto computation = into / fs::path(unpacked.computation).filename();
    const auto place = computation / std::to_string(unpacked.number);
    std::error_code problem;
    fs::create_directory(computation, problem);
    if (!problem) fs::permissions(computation, fs::perms::owner_all, problem);
    if (problem) return fail("{}: {}", computation.string(), problem.message());
    if (::rename(unpacked.folder.c_str(), place.c_str()) == 0) return place.string();
    if (errno != EEXIST && errno != ENOTEMPTY) return fail_errno("{}", place.string());
    if (text_of(place / manifest_file) == text_of(fs::path(unpacked.folder) / manifest_file))
        return place.string();
    return fail_code(ExitCode::refused,
                     "{} is there already, and is another checkpoint; unpack it into another folder",
                     place.string());
}

}  // namespace

Result<std::uint64_t> export_to(const std::string& file, const Generation& generation) {
    if (const auto verified = verify(generation); !verified.whole())
        return fail_code(ExitCode::damaged, "{} isn't whole: {}", generation.folder,
                         verified.problems.front());
    if (file == "-") {
        CHECK_OK(write_archive(STDOUT_FILENO, file, generation));
        return std::uint64_t{0};
    }
    const std::string unfinished = file + ".partial";
    const Fd fd(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return fail_errno("{}", unfinished);
    auto written = write_archive(fd.get(), file, generation);
    struct stat status {};
    if (written && (::fsync(fd.get()) != 0 || ::fstat(fd.get(), &status) != 0 ||
                    ::rename(unfinished.c_str(), file.c_str()) != 0))
        written = fail_errno("{}", file);
    if (!written) {
        ::unlink(unfinished.c_str());
        return std::unexpected(std::move(written.error()));
    }
    return static_cast<std::uint64_t>(status.st_size);
}

Result<std::string> import_from(const std::string& file, const std::string& into) {
    const Reader tar(archive_read_new());
    archive_read_support_format_tar(tar.get());
    archive_read_support_filter_zstd(tar.get());
    archive_read_support_filter_gzip(tar.get());
    const int opened = file == "-" ? archive_read_open_fd(tar.get(), STDIN_FILENO, block_bytes)
                                   : archive_read_open_filename(tar.get(), file.c_str(), block_bytes);
    if (opened != ARCHIVE_OK) return failed(tar.get(), file, ExitCode::damaged);
    std::error_code problem;
    fs::create_directories(into, problem);
    const fs::path whole = fs::canonical(into, problem);
    if (problem) return fail("{}: {}", into, problem.message());
    const Scratch scratch(whole);
    if (scratch.path().empty()) return fail_errno("{}: a folder in it can't be made", into);
    CHECK_OK(unpack(tar.get(), scratch.path(), file));
    const auto found = find(scratch.path());
    if (!found || found->size() != 1)
        return fail_code(ExitCode::damaged,
                         "{} is no archive of `cairn export`: no generation of a checkpoint is in it", file);
    return put_in_place(found->front(), whole);
}

}  // namespace cairn::generations
