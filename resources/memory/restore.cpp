// Inodes whose contents are in the image: shared memory, memfd, deleted files.
#include "resources/system_v/restore.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "common/folder_trust.h"
#include "common/image/hash.h"
#include "common/launchers_folder.h"
#include "common/open_exactly.h"
#include "resources/restore/lost_folder.h"
#include "resources/restore/opening.h"

namespace cairn::restart {
namespace {

using schema::MemoryType;

constexpr std::uint32_t late_seals = F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

const schema::Memory& saved_of(const schema::Object& object) {
    return std::get<schema::Memory>(object.what);
}

class Mapped {
  public:
    Mapped(int fd, std::uint64_t size, int flags) : size_(size) {
        at_ = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0);
    }
    Mapped(const Mapped&) = delete;
    Mapped& operator=(const Mapped&) = delete;
    ~Mapped() {
        if (at_ != MAP_FAILED) ::munmap(at_, size_);
    }
    [[nodiscard]] bool ok() const { return at_ != MAP_FAILED; }
    [[nodiscard]] std::uint8_t* data() const { return static_cast<std::uint8_t*>(at_); }

  private:
    void* at_;
    std::uint64_t size_;
};

// Those that have contents: where the pool is empty this fails, and writing to them would be SIGBUS. Whoever
// has been killed a moment ago may still be giving its pages back. (UCX, and so MPICH, takes what is in the
// pool for its buffers: it isn't only ours.)
Result<> take_huge_pages(const schema::Object& object, int fd) {
    constexpr int most_tries = 200;
    const schema::Memory& saved = saved_of(object);
    for (const schema::ObjectRun& run : saved.pages) {
        if (run.at >= saved.size) continue;
        const auto length = static_cast<off_t>(std::min(run.length, saved.size - run.at));
        int failed = 0;
        for (int tries = 0; tries < most_tries; ++tries) {
            failed = ::fallocate(fd, 0, static_cast<off_t>(run.at), length) == 0 ? 0 : errno;
            if (failed != ENOSPC && failed != ENOMEM && failed != EINTR) break;
            const timespec slice = {0, 10'000'000};
            ::nanosleep(&slice, nullptr);
        }
        if (failed != 0)
            return fail_code(
                ExitCode::refused,
                "{}: {} bytes of huge pages can't be had: {} (/proc/sys/vm/nr_hugepages, and those of "
                "other sizes in /sys/kernel/mm/hugepages, say how many the machine keeps)",
                object.path, saved.size, std::strerror(failed));
    }
    return {};
}

// Of a file that was there: what isn't in the image is zero. No page is given back by this: truncate(2) and
// holes would take away the pages that programs have written to in private mappings as well.
void clear_between(std::uint8_t* begin, const std::vector<schema::ObjectRun>& runs, std::uint64_t size,
                   int fd) {
    constexpr std::uint64_t piece_size = std::uint64_t{1} << 16;
    std::vector<std::uint8_t> piece(piece_size);
    auto run = runs.begin();
    for (std::uint64_t at = 0; at < size;) {
        if (run != runs.end() && at >= run->at) {
            at = std::max(at, run->at + run->length);
            ++run;
            continue;
        }
        const auto end = std::min({size, run == runs.end() ? size : run->at, at + piece_size});
        // Read by a call: it makes no pages of holes.
        const ssize_t got = ::pread(fd, piece.data(), end - at, static_cast<off_t>(at));
        if (got > 0 && std::any_of(piece.begin(), piece.begin() + got, [](auto byte) { return byte != 0; }))
            std::memset(begin + at, 0, static_cast<std::size_t>(got));
        at = end;
    }
}

bool is_huge(const schema::Memory& saved) {
    return (static_cast<unsigned>(saved.memfd_flags) & MFD_HUGETLB) != 0;
}

Result<> fill(const ImageReader& image, const schema::Object& object, int fd, bool fresh = true) {
    const schema::Memory& saved = saved_of(object);
    if (::ftruncate(fd, static_cast<off_t>(saved.size)) != 0)
        return fail_errno("{}: {} bytes", object.path, saved.size);
    const bool huge = is_huge(saved);
    if (saved.pages.empty() && (fresh || !huge || saved.size == 0)) return {};
    std::vector<std::uint8_t> piece(huge ? 0 : image_max_run);
    // Huge pages can't be written by write(2); files are not written through a mapping, which would tell a
    // full disk by SIGBUS.
    std::optional<Mapped> mapped;
    if (huge) {
        CHECK_OK(take_huge_pages(object, fd));
        if (!mapped.emplace(fd, saved.size, MAP_NORESERVE).ok())
            return fail_errno("{}: {} bytes of huge pages", object.path, saved.size);
        if (!fresh) clear_between(mapped->data(), saved.pages, saved.size, fd);
    }
    PageReader pages(image);
    for (const schema::ObjectRun& run : saved.pages) {
        CHECK_OK(image.check_run(run));
        if (run.at >= saved.size)
            return fail_code(ExitCode::damaged, "{}: {} has pages beyond its end", image.path(), object.path);
        const std::uint64_t length = std::min(run.length, saved.size - run.at);
        if (huge && length < run.length)
            return fail_code(ExitCode::damaged, "{}: {} ends within a page", image.path(), object.path);
        CHECK_OK(
            pages.read_run(run, huge ? std::span(mapped->data() + run.at, run.length) : std::span(piece)));
        std::uint64_t written = huge ? length : 0;
        while (written < length) {
            const ssize_t wrote =
                ::pwrite(fd, piece.data() + written, length - written, static_cast<off_t>(run.at + written));
            if (wrote < 0) return fail_errno("contents of {}", object.path);
            written += static_cast<std::uint64_t>(wrote);
        }
    }
    return {};
}

Result<Fd> new_memfd(const std::string& name, int flags) {
    Fd memory(::memfd_create(name.c_str(), static_cast<unsigned>(flags) | MFD_CLOEXEC));
    if (!memory) return fail_errno("memfd {}", name);
    return memory;
}

// A file without a name, in the folder where it was: the same file system, with its limits and features.
Fd nameless_file(const std::string& path, const schema::Object& object) {
    const Fd folder =
        open_exactly(AT_FDCWD, path.substr(0, path.rfind('/') + 1), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (!folder) return {};
    if ((object.flags & O_TMPFILE) == O_TMPFILE)
        return Fd(::openat(folder.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    // Not O_TMPFILE otherwise: such a file could be linked again, a deleted one can't.
    std::string name = fd_path(folder.get()) + "/.cairn-XXXXXX";
    Fd file(::mkostemp(name.data(), O_CLOEXEC));
    if (file) ::unlink(name.c_str());
    return file;
}

void set_times(int fd, const schema::FileIdentity& identity) {
    const timespec modified{identity.mtime_ns / 1'000'000'000, identity.mtime_ns % 1'000'000'000};
    const timespec times[2] = {{0, UTIME_OMIT}, modified};
    ::futimens(fd, times);
}

// Root's restart of another user's programs.
void give_owner(const schema::Object& object, int fd) {
    const auto& owner = saved_of(object).owner;
    if (owner && ::geteuid() == 0) (void)!::fchown(fd, owner->uid, owner->gid);
}

std::optional<uid_t> owner_of(const schema::Object& object) {
    const auto& owner = saved_of(object).owner;
    return owner ? std::optional<uid_t>(owner->uid) : std::nullopt;
}

// Its name is there: it may be written on by who went on, or be another's. What is in it stays until the
// programs are about to go on, unless it has to be executed before.
Result<Fd> take_named(Opening& opening, const schema::Object& object, const std::string& path,
                      FoundFile found) {
    if (!S_ISREG(found.status.st_mode))
        return fail_code(ExitCode::refused, "{} was a regular file at the checkpoint, and is none now", path);
    auto file = opening.options.access.open(object, path, found, O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (!file) return file;
    if (opening.options.access.is_executed(object.id)) {
        CHECK_OK(refill_memory(opening.image, object, file->get()));
        return file;
    }
    const auto size = static_cast<off_t>(saved_of(object).size);
    if (found.status.st_size < size && ::ftruncate(file->get(), size) != 0)
        return fail_errno("{}: {} bytes", path, size);
    Fd later(::fcntl(file->get(), F_DUPFD_CLOEXEC, 0));
    if (!later) return fail_errno("{}", path);
    opening.refills.insert_or_assign(object.id, std::move(later));
    return file;
}

struct Made {
    Fd file;
    bool file_was_there = false;  // with an owner, a mode and contents of its own
};

Result<Made> as_made(Result<Fd> file) {
    if (!file) return std::unexpected(std::move(file.error()));
    return Made{std::move(*file), false};
}

void dress(const schema::Object& object, int fd) {
    if (object.identity.mode != 0) ::fchmod(fd, object.identity.mode & 07777);
    if (saved_of(object).type == MemoryType::file) set_times(fd, object.identity);
}

// By a name that nobody has; errno where it can't be.
Fd make_named(Opening& opening, const std::string& path) {
    constexpr int fresh = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    const auto slash = path.rfind('/');
    const std::string name = path.substr(slash + 1);
    const Fd there = folder_of_lost(opening, path, 0755);
    return there ? Fd(::openat(there.get(), name.c_str(), fresh, 0600)) : Fd();
}

// Where temporary files are anybody may have made a folder of a launcher's name, and what is in it would be
// his.
Result<> check_launchers_folder(const std::string& path, uid_t user) {
    const std::string folder(launchers_folder(path));
    struct stat there {};
    if (folder.empty() || ::lstat(folder.c_str(), &there) != 0) return {};
    const bool of_others = there.st_uid != user && there.st_uid != 0;
    if (S_ISDIR(there.st_mode) && !of_others && (there.st_mode & (S_IWGRP | S_IWOTH)) == 0) return {};
    return fail_code(
        ExitCode::refused,
        "{} is an MPI launcher's folder by its name, and belongs to {} with mode {:o}: what is in it "
        "could be another's; have it removed",
        folder, words_for_user(there.st_uid), there.st_mode & 07777);
}

Result<Made> make(Opening& opening, const schema::Object& object) {
    const Access& access = opening.options.access;
    const schema::Memory& saved = saved_of(object);
    if (saved.type == MemoryType::memfd) return as_made(new_memfd(saved.name, saved.memfd_flags));
    if (saved.type != MemoryType::file)
        return as_made(new_memfd(std::string(schema::name_of(saved.type)), saved.memfd_flags));
    Made made;
    const std::string path = mapped_path(object.path, opening.options);
    if (object.deleted) {
        {
            const auto acting = TRY(ActingAs::begin(access.one_of(object.id, owner_of(object))));
            made.file = nameless_file(path, object);
        }
        const int problem = errno;
        if (!made.file && access.root_may_make(path)) made.file = nameless_file(path, object);
        if (made.file) return made;
        opening.note(
            "{} was deleted before the checkpoint and its folder can't be written to ({}): kept in memory",
            path, std::strerror(problem));
        return as_made(new_memfd(path.substr(path.rfind('/') + 1).substr(0, 200), saved.memfd_flags));
    }
    CHECK_OK(check_launchers_folder(path, access.one_of(object.id, owner_of(object)).user));
    // Kept in memory by the kernel (/dev/shm): gone after a reboot, and otherwise written on by whoever went
    // on.
    auto found = access.find(object, path);
    if (found) {
        made.file_was_there = true;
        auto file = TRY(take_named(opening, object, path, std::move(*found)));
        made.file = std::move(file);
        return made;
    }
    if (found.error().number != ENOENT) return std::unexpected(std::move(found.error()));
    {
        const auto acting = TRY(ActingAs::begin(access.one_of(object.id, owner_of(object))));
        made.file = make_named(opening, path);
    }
    if (!made.file && errno == EACCES && access.root_may_make(path)) made.file = make_named(opening, path);
    if (!made.file) return fail_errno("{}: can't be made again", path);
    give_owner(object, made.file.get());
    return made;
}

Result<> seal(const schema::Object& object, int fd, bool mapped) {
    const auto* saved = object.get<schema::Memory>();
    if (saved == nullptr || saved->seals == 0 || saved->type != MemoryType::memfd) return {};
    // FUTURE_WRITE forbids the writable mappings that were made before it, so it waits for them; WRITE
    // excludes them.
    const bool wait = (saved->seals & F_SEAL_FUTURE_WRITE) != 0;
    const std::uint32_t now =
        mapped ? (wait ? saved->seals & late_seals : 0U) : (wait ? saved->seals & ~late_seals : saved->seals);
    if (now == 0) return {};
    const int has = ::fcntl(fd, F_GET_SEALS);
    const auto missing = now & ~static_cast<std::uint32_t>(std::max(has, 0));
    if (missing == 0 || ::fcntl(fd, F_ADD_SEALS, missing) == 0) return {};
    // Seals are for who has it open for writing, and all of the program's descriptors may be for reading by
    // now.
    const Fd writing = open_as_owner(fd, O_RDWR | O_CLOEXEC);
    if (!writing || ::fcntl(writing.get(), F_ADD_SEALS, missing) != 0)
        return fail_errno("{}: seals {:#x}", object.path, missing);
    return {};
}

Result<> open_memory(Opening& opening, const schema::Object& object) {
    auto made = make(opening, object);
    if (!made) return std::unexpected(std::move(made.error()));
    const int fd = made->file.get();
    if (!made->file_was_there) {
        CHECK_OK(fill(opening.image, object, fd));
        dress(object, fd);
    }
    CHECK_OK(seal(object, fd, false));
    return opening.keep(object, std::move(made->file));
}

// Deleted executables can't be executed as long as anybody has them open for writing.
Result<> make_read_only(Opening& opening) {
    for (const schema::Object& object : opening.objects.objects) {
        if (!object.is<schema::Memory>() || (object.flags & O_ACCMODE) != O_RDONLY || is_system_v(object))
            continue;
        const int fd = opening.opened.here(object.id);
        const Fd again = open_as_owner(fd, O_RDONLY | O_CLOEXEC);
        if (!again) return fail_errno("{}", object.path);
        CHECK_OK(opening.keep_copy(object, again.get()));
    }
    return {};
}

}  // namespace

// And what is made of it: files that it backs.
Result<> open_memories(Opening& opening) {
    for (const schema::Object& object : opening.objects.objects)
        if (object.is<schema::Memory>() && !is_system_v(object))
            CHECK_OK(with_name(object, open_memory(opening, object)));
    CHECK_OK(open_backed_files(opening));
    CHECK_OK(make_read_only(opening));
    // Nothing is made of another one's memory any more.
    opening.opened.open_doors();
    return {};
}

Result<> seal_mapped_memory(const schema::Object& object, int fd, AfterForest&) {
    return seal(object, fd, true);
}

Result<> refill_memory(const ImageReader& image, const schema::Object& object, int fd) {
    const bool huge = is_huge(saved_of(object));
    if (!huge && ::ftruncate(fd, 0) != 0) return fail_errno("{}: can't be cut", object.path);
    CHECK_OK(fill(image, object, fd, !huge));
    set_times(fd, object.identity);
    return {};
}

}  // namespace cairn::restart
