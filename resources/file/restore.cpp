// Files, directories and devices by path; files whose contents are in a memory object; files of /proc.
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "common/open_exactly.h"
#include "resources/file/schema_identity.h"
#include "resources/restore/other.h"

namespace cairn::restart {
namespace {

bool of_process(const std::string& path) {
    return path.starts_with("/proc/") && path.size() > 6 && path[6] >= '1' && path[6] <= '9';
}

// A folder that was removed while it was open, or somebody's cwd: another one, removed as well.
Result<Fd> removed_folder(int flags) {
    const char* temporary = std::getenv("TMPDIR");
    std::string name = fmt::format("{}/cairn-removed-XXXXXX", temporary ? temporary : "/tmp");
    if (!::mkdtemp(name.data())) return fail_errno("{}", name);
    Fd folder(::open(name.c_str(), flags));
    const int problem = errno;
    ::rmdir(name.c_str());
    errno = problem;
    if (!folder) return fail_errno("{}", name);
    return folder;
}

// A file of /proc/PID whose process or thread has gone: reading it fails as the kernel has it then (ESRCH for
// most of them). It is the same file of a process that lives just as long as it takes to open it.
Result<Fd> file_of_the_dead(const schema::Object& object, int flags) {
    int told[2];
    if (::pipe2(told, O_CLOEXEC) != 0) return fail_errno("pipe2");
    Fd end(told[0]);
    Fd begin(told[1]);
    const pid_t child = ::fork();
    if (child == 0) {
        begin.reset();
        char nothing = 0;
        ::_exit(static_cast<int>(::read(end.get(), &nothing, 1)));
    }
    if (child < 0) return fail_errno("fork");
    std::string path = kernel_path(object.path, [&](ProgramId) { return KernelId(child); });
    constexpr std::string_view mark = " (deleted)";
    if (path.ends_with(mark)) path.resize(path.size() - mark.size());
    Fd file(::open(path.c_str(), flags));
    const int problem = errno;
    begin.reset();
    ::waitpid(child, nullptr, 0);
    errno = problem;
    if (!file) return fail_errno("{} (of a process that had gone)", object.path);
    return file;
}

// A device that had lost its name: another node of the same device, removed as well. Root only, and so only
// for a checkpoint that nobody else can have written.
Result<Fd> removed_device(const schema::Object& object, const Access& access, int flags) {
    if (must_take(access.one_of(object.id)) && !access.doubt().empty())
        return fail_code(
            ExitCode::refused,
            "a device that had been deleted is made again by root's rights only for a checkpoint "
            "that only root can have written, and {}",
            access.doubt());
    const std::string name = fmt::format("/dev/.cairn-{}-{}", ::getpid(), object.id);
    if (::mknod(name.c_str(), object.identity.mode, object.identity.rdev) != 0)
        return fail_errno("{} was deleted before the checkpoint and can't be made again", object.path);
    Fd device(::open(name.c_str(), flags));
    const int problem = errno;
    ::unlink(name.c_str());
    errno = problem;
    if (!device) return fail_errno("{}", object.path);
    return device;
}

Result<> set_position(const schema::Object& object, int fd) {
    if (object.position == 0 || (object.flags & O_PATH)) return {};
    if (::lseek(fd, object.position, SEEK_SET) == object.position || errno == ESPIPE) return {};
    const int problem = errno;
    struct stat status {};
    if (::fstat(fd, &status) == 0 && S_ISCHR(status.st_mode)) return {};  // /dev/null stands in (--path-map)
    errno = problem;
    return fail_errno("{}: position {}", object.path, object.position);
}

// With the rights of one of those who had it, and with its mode.
Result<> make_anew(const schema::Object& object, const std::string& path, const Access& access) {
    const auto acting = TRY(ActingAs::begin(access.one_of(object.id)));
    const auto slash = path.rfind('/');
    const Fd folder = open_exactly(AT_FDCWD, path.substr(0, slash + 1), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (!folder) return fail_errno("{}", path.substr(0, slash + 1));
    const mode_t mode = object.identity.mode & 0777U;
    const Fd made(::openat(folder.get(), path.c_str() + slash + 1,
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (!made) return fail_errno("{} is gone and can't be made anew", path);
    ::fchmod(made.get(), mode);
    return {};
}

}  // namespace

const schema::InOwnMounts* inner_proc_of(const schema::Object& object) {
    const auto* file = object.get<schema::File>();
    return file != nullptr && file->own_mounts && file->own_mounts->inner_proc.value_or(false)
               ? &*file->own_mounts
               : nullptr;
}

bool is_late(const schema::Object& object) {
    if (object.is<schema::Pidfd>()) return !object.outside;
    if (object.is<schema::Userfaultfd>()) return true;
    if (!object.is<schema::File>() || object.path == "/dev/tty") return object.is<schema::File>();
    if (inner_proc_of(object) != nullptr) return true;
    return of_process(object.path) && !object.deleted;
}

namespace {

bool is_of_a_thread(const schema::Object& object) {
    int process = 0, thread = 0;
    return std::sscanf(object.path.c_str(), "/proc/%d/task/%d", &process, &thread) == 2 && process != thread;
}

bool is_bound_to_memory(const schema::Object& object) {
    const std::string name = object.path.substr(object.path.rfind('/') + 1);
    for (const char* bound : {"maps", "smaps", "smaps_rollup", "numa_maps", "mem", "environ", "auxv",
                              "pagemap", "clear_refs", "cmdline"})
        if (name == bound) return true;
    return false;
}

}  // namespace

bool is_last(const schema::Object& object) {
    if (object.is<schema::Userfaultfd>()) return true;
    if (const auto* pidfd = object.get<schema::Pidfd>())
        return !object.outside && pidfd->of_thread.value_or(false);
    return object.is<schema::File>() && is_late(object) && object.path != "/dev/tty" &&
           (inner_proc_of(object) != nullptr || is_of_a_thread(object) || is_bound_to_memory(object));
}

std::string kernel_path(const std::string& path, const ToKernel& to_kernel) {
    std::string result = path;
    if (!to_kernel || !of_process(path)) return result;
    for (const std::string_view before : {"/proc/", "/task/"}) {
        const std::size_t at = before == "/proc/" ? 0 : result.find(before);
        if (at == std::string::npos) break;
        const char* begin = result.data() + at + before.size();
        pid_t id = 0;
        const auto [end, problem] = std::from_chars(begin, result.data() + result.size(), id);
        if (problem != std::errc{}) break;
        result.replace(at + before.size(), static_cast<std::size_t>(end - begin),
                       std::to_string(to_kernel(ProgramId(id)).number()));
    }
    return result;
}

Result<Fd> open_late(const schema::Object& object, const schema::Process& process, const Access& access,
                     const ToKernel& to_kernel) {
    if (const auto* pidfd = object.get<schema::Pidfd>()) return open_pidfd(object, *pidfd, to_kernel);
    const std::string path = kernel_path(object.path, to_kernel);
    const Rights rights = rights_of(process);
    const bool of_own =
        of_process(object.path) && access.same_user(ProgramId(std::atoi(object.path.c_str() + 6)), rights);
    const auto acting = TRY(ActingAs::begin(of_own ? own_rights() : rights));
    const Fd place = open_exactly(AT_FDCWD, path, O_PATH | O_CLOEXEC);
    if (!place) return fail_errno("{}", path);
    Fd file(::open(fd_path(place.get()).c_str(), reopen_flags(object.flags)));
    if (!file) return fail_errno("{}", path);
    CHECK_OK(set_position(object, file.get()));
    // emacs is told by SIGIO of what is typed at /dev/tty.
    CHECK_OK(set_owner(object, file.get(), to_kernel));
    return file;
}

namespace {

// In a mount namespace of the group's own, by its path in there.
Result<Fd> find_in_own_mounts(const Opening& opening, const schema::InOwnMounts& own, int flags) {
    const auto root = opening.own_roots.find(own.space);
    if (root == opening.own_roots.end())
        return fail_code(ExitCode::damaged, "{}: its mount namespace isn't there", own.path);
    open_how how{};
    how.flags = static_cast<std::uint64_t>(static_cast<unsigned>(flags | O_CLOEXEC));
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    Fd found(
        static_cast<int>(::syscall(SYS_openat2, root->second.get(), own.path.c_str(), &how, sizeof how)));
    if (!found) return fail_errno("{} (in its mount namespace)", own.path);
    return found;
}

Result<> open_file(Opening& opening, const schema::Object& object) {
    if (is_late(object)) return {};
    const int flags = reopen_flags(object.flags);
    const auto& own = object.get<schema::File>()->own_mounts;
    if (own && own->only_there && object.backing < 0) {
        // The owner may have opened it before he forbade that to himself.
        const Fd place = TRY(find_in_own_mounts(opening, *own, O_PATH | O_NOFOLLOW));
        Fd file = open_as_owner(place.get(), flags & ~O_EXCL);
        if (!file) return fail_errno("{} (in its mount namespace)", own->path);
        CHECK_OK(set_position(object, file.get()));
        return opening.keep(object, std::move(file));
    }
    if (object.backing >= 0) {
        const auto backing = TRY(opening.opened.lend(object.backing));
        if (!backing)
            return fail_code(ExitCode::damaged, "object {} is backed by {}, which isn't there", object.id,
                             object.backing);
        // The only description of a file made by O_TMPFILE is the one that made it.
        const bool maker = (object.flags & O_TMPFILE) == O_TMPFILE && (object.flags & O_ACCMODE) == O_RDWR;
        Fd file = maker ? Fd(::fcntl(backing.get(), F_DUPFD, 0))
                        : open_as_owner(backing.get(), flags & ~(O_TMPFILE & ~O_DIRECTORY));
        if (!file) return fail_errno("{}", object.path);
        if (maker) ::fcntl(file.get(), F_SETFL, object.flags);
        CHECK_OK(set_position(object, file.get()));
        return opening.keep(object, std::move(file));
    }
    if (object.deleted && of_process(object.path)) {
        auto made = file_of_the_dead(object, flags);
        if (!made) return std::unexpected(std::move(made.error()));
        return opening.keep(object, std::move(*made));
    }
    if (object.deleted) {
        auto made = S_ISDIR(object.identity.mode) ? removed_folder(flags)
                                                  : removed_device(object, opening.options.access, flags);
        if (!made) return std::unexpected(std::move(made.error()).in(object.path));
        if (S_ISDIR(object.identity.mode))
            opening.note("{} had been removed before the checkpoint: an empty removed folder stands in",
                         object.path);
        return opening.keep(object, std::move(*made));
    }
    const Access& access = opening.options.access;
    FoundFile found;
    const Verdict verdict = judge(object, opening.options, &found);
    if (verdict.action == Verdict::Action::refuse) return fail_code(ExitCode::refused, "{}", verdict.why);
    const std::string path = mapped_path(object.path, opening.options);
    if (verdict.action == Verdict::Action::make) {
        CHECK_OK(make_anew(object, path, access));
        found = TRY(access.find(object, path));
    }
    if (verdict.action == Verdict::Action::truncate) {
        auto both = access.open(object, path, found, O_RDWR | O_CLOEXEC);
        if (both)
            opening.cuts.push_back({std::move(*both), path, object.identity.size, access.one_of(object.id)});
        else if (opening.options.files == FilePolicy::truncate)
            return std::unexpected(std::move(both.error()).in("what is cut off is put aside first"));
        else
            opening.note("{}: not cut back, for it can't be read and so not be kept", path);
    }
    // It is the same file, and shows itself by where it is mounted in there.
    if (own && !own->only_there && verdict.action != Verdict::Action::make) {
        auto there = TRY(find_in_own_mounts(opening, *own, O_PATH | O_NOFOLLOW));
        struct stat status {};
        if (::fstat(there.get(), &status) == 0 && same_inode(status, found.status))
            found.place = std::move(there);
    }
    auto file = access.open(object, path, found, flags);
    // Who has it mapped for reading needn't be allowed to write to it any more.
    if (!file && opening.options.writable_mappings.contains(object.id))
        file = access.open(object, path, found, (flags & ~O_ACCMODE) | O_RDONLY);
    // O_NOATIME is for a file's owner and root.
    if (!file && file.error().number == EPERM && (flags & O_NOATIME)) {
        file = access.open(object, path, found, flags & ~O_NOATIME);
        if (file) opening.note("{}: opened without O_NOATIME, which only the file's owner may ask for", path);
    }
    if (!file && file.error().number == 0) return std::unexpected(std::move(file.error()));
    if (!file) return std::unexpected(std::move(file.error()).in("can't be opened as it was"));
    CHECK_OK(set_position(object, file->get()));
    return opening.keep(object, std::move(*file));
}

Result<> open_some(Opening& opening, bool backed) {
    for (const schema::Object& object : opening.objects.objects)
        if (object.is<schema::File>() && (object.backing >= 0) == backed)
            CHECK_OK(open_file(opening, object));
    return {};
}

}  // namespace

Result<> open_backed_files(Opening& opening) {
    return open_some(opening, true);
}

Result<> open_files(Opening& opening) {
    return open_some(opening, false);
}

}  // namespace cairn::restart
