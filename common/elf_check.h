// Whether a program can be part of a group, decided from its file before it runs.
//
// It must be for this machine, and not run in secure-execution mode (AT_SECURE). Programs that are started by
// glibc's dynamic loader get libcairn.so by LD_PRELOAD. Others (static ones, musl's) are members without it:
// what a checkpoint needs in them it places there from outside (docs/decisions/0026-without-libc.md). Used by
// `cairn launch` and, at every exec inside a group, by the hijack library, there possibly in a child of
// vfork: no allocation, no libstdc++, no state, system calls by syscall(2) only so that no interposed
// function is entered; errno is left as it was.
#pragma once

#include <elf.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cairn {

enum class ProgramKind {
    dynamic,         // started by glibc's loader: can be part of a group
    unknown_format,  // neither ELF nor #!: the kernel (binfmt_misc) or execvp's /bin/sh decides
    unchecked,  // couldn't be looked at for a reason that says nothing of the program (descriptors used up,
                // ...)
    not_found,
    not_executable,
    own_tool,        // `cairn` itself, static: not refused, runs outside of the group
    static_program,  // a member without libcairn.so
    other_loader,    // the same: musl's and others, and libcairn.so is built for glibc
    // From here on: refused.
    unreadable,  // may be executed, not read: the kernel makes it undumpable, an ordinary user can't save it
    other_machine,
    secure,
};

struct ProgramCheck {
    ProgramKind kind = ProgramKind::dynamic;
    int error = 0;  // errno value for unchecked, not_found, not_executable, unreadable
    const char* reason =
        "";  // in words, without a path, at most 59 characters (fits Slot::foreign); "" for dynamic
    char file[256] =
        {};  // what the verdict is about: the path asked for, or the interpreter that #! leads to; cut

    [[nodiscard]] bool refused() const { return kind >= ProgramKind::unreadable; }
    // A program that can be a member, but not with our library in it.
    [[nodiscard]] bool without_library() const {
        return kind == ProgramKind::static_program || kind == ProgramKind::other_loader;
    }
    // Does it belong to the group once it runs? Our own command, used by a program of the group, doesn't.
    [[nodiscard]] bool member() const { return !refused() && kind != ProgramKind::own_tool; }
};

namespace elf_check_detail {

inline constexpr std::size_t head_size =
    256;  // BINPRM_BUF_SIZE (linux/binfmts.h): what the kernel reads of a file
inline constexpr std::size_t first_read =
    1024;  // holds the program headers and the loader's name of nearly all ELF files
inline constexpr int script_depth = 5;  // fs/exec.c, exec_binprm: ELOOP beyond

struct Errno {  // the caller's errno, put back
    int saved = errno;
    Errno() = default;
    Errno(const Errno&) = delete;
    Errno& operator=(const Errno&) = delete;
    ~Errno() { errno = saved; }
};

struct File {
    int fd;
    explicit File(int number) : fd(number) {}
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File() {
        if (fd >= 0) ::syscall(SYS_close, fd);
    }
    // Bytes read at offset, fewer than size at the end of the file or on an error.
    std::size_t read(void* to, std::size_t size, std::uint64_t offset) const {
        const long got = ::syscall(SYS_pread64, fd, to, size, offset);
        return got < 0 ? 0 : static_cast<std::size_t>(got);
    }
};

inline void copy_path(char (&to)[256], const char* from) {
    std::size_t n = 0;
    for (; n + 1 < sizeof to && from[n] != '\0'; ++n) to[n] = from[n];
    to[n] = '\0';
}

inline bool ends_with_name(const char* path, const char* name) {
    const char* base = path;
    for (const char* p = path; *p != '\0'; ++p)
        if (*p == '/') base = p + 1;
    return std::strcmp(base, name) == 0;
}

inline bool glibc_loader(const char* path) {
    return ends_with_name(path, "ld-linux-x86-64.so.2");
}

// Is this id, as stat shows it, one of the caller's user namespace? Ids that have no mapping are shown as the
// overflow id, and a setuid bit that belongs to such an id has no effect (fs/exec.c, bprm_fill_uid).
inline bool id_mapped(std::uint32_t id, const char* map_path) {
    constexpr std::uint32_t overflow_id = 65534;
    if (id != overflow_id) return true;
    const File map(static_cast<int>(::syscall(SYS_openat, AT_FDCWD, map_path, O_RDONLY | O_CLOEXEC)));
    char text[4096];
    if (map.fd < 0) return true;
    const std::size_t size = map.read(text, sizeof text, 0);
    std::uint64_t field[3] = {};  // first id inside, first id outside, count
    int fields = 0;
    for (std::size_t i = 0; i < size;) {
        if (text[i] < '0' || text[i] > '9') {
            ++i;
            continue;
        }
        std::uint64_t number = 0;
        while (i < size && text[i] >= '0' && text[i] <= '9')
            number = number * 10 + static_cast<std::uint64_t>(text[i++] - '0');
        field[fields++] = number;
        if (fields < 3) continue;
        if (id >= field[0] && id - field[0] < field[2]) return true;
        fields = 0;
    }
    return false;
}

// Does the file carry capabilities that it would hand to a process whose real uid isn't 0? The kernel shows a
// capability of another user namespace as revision 3, one that counts here as revision 2
// (security/commoncap.c, cap_inode_getsecurity), so revision 3 has no effect here.
inline bool gives_capabilities(int fd) {
    struct vfs_cap_data data = {};
    const long got = ::syscall(SYS_fgetxattr, fd, "security.capability", &data, sizeof data);
    if (got < static_cast<long>(XATTR_CAPS_SZ_1)) return false;
    const std::uint32_t revision = data.magic_etc & VFS_CAP_REVISION_MASK;
    if (revision != VFS_CAP_REVISION_1 && revision != VFS_CAP_REVISION_2) return false;
    if ((data.magic_etc & VFS_CAP_FLAGS_EFFECTIVE) != 0) return true;
    const unsigned words = revision == VFS_CAP_REVISION_1 ? 1 : 2;
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct own[2] = {};
    if (::syscall(SYS_capget, &header, own) != 0) return true;
    for (unsigned i = 0; i < words; ++i)
        if (data.data[i].permitted != 0 || (data.data[i].inheritable & own[i].inheritable) != 0) return true;
    return false;
}

// security/commoncap.c, cap_bprm_creds_from_file: secure if the effective ids after the exec differ from the
// real ids, or if a process whose real uid isn't 0 gains capabilities from the file.
inline bool at_secure(int fd, const struct stat& status) {
    // Each question to the kernel costs every exec of a group: those that only set-id bits or file
    // capabilities make necessary are asked only then.
    std::uint32_t uid = 0, effective_uid = 0, gid = 0, effective_gid = 0, saved = 0;
    ::syscall(SYS_getresuid, &uid, &effective_uid, &saved);
    ::syscall(SYS_getresgid, &gid, &effective_gid, &saved);
    const auto no_suid_mount = [fd] {
        struct statfs mount = {};
        return ::syscall(SYS_fstatfs, fd, &mount) == 0 &&
               (static_cast<unsigned long>(mount.f_flags) & ST_NOSUID) != 0;
    };
    // Without group execute permission the setgid bit meant mandatory locking and is ignored by exec.
    const bool set_uid = (status.st_mode & S_ISUID) != 0;
    const bool set_gid = (status.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP);
    if ((set_uid || set_gid) && !no_suid_mount() &&
        ::syscall(SYS_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 &&
        id_mapped(status.st_uid, "/proc/thread-self/uid_map") &&
        id_mapped(status.st_gid, "/proc/thread-self/gid_map")) {
        if (set_uid) effective_uid = status.st_uid;
        if (set_gid) effective_gid = status.st_gid;
    }
    if (effective_uid != uid || effective_gid != gid) return true;
    return uid != 0 && gives_capabilities(fd) && !no_suid_mount();
}

// A descriptor opened with O_PATH can't be read, its /proc link can be opened again for reading.
inline void descriptor_link(char (&link)[40], int fd) {
    constexpr char prefix[] = "/proc/thread-self/fd/";
    std::memcpy(link, prefix, sizeof prefix);
    char digits[12];
    std::size_t n = 0;
    for (auto v = static_cast<unsigned>(fd); n == 0 || v != 0; v /= 10)
        digits[n++] = static_cast<char>('0' + v % 10);
    std::size_t at = sizeof prefix - 1;
    while (n > 0) link[at++] = digits[--n];
    link[at] = '\0';
}

inline void judge(ProgramCheck& check, ProgramKind kind, const char* reason, int error = 0) {
    check.kind = kind;
    check.reason = reason;
    check.error = error;
}

// An ELF note by which cairn's static command is told from other static programs (cli/main.cpp).
inline constexpr char own_note_name[8] = "cairn\0\0";

inline bool has_own_note(const File& file, const Elf64_Phdr& notes) {
    constexpr int most = 16;
    std::uint64_t at = notes.p_offset;
    const std::uint64_t end = notes.p_offset + notes.p_filesz;
    for (int i = 0; i < most && at < end; ++i) {
        struct {
            Elf64_Nhdr header;
            char name[8];
        } note;
        if (file.read(&note, sizeof note, at) != sizeof note) return false;
        if (note.header.n_namesz == sizeof "cairn" &&
            std::memcmp(note.name, own_note_name, sizeof "cairn") == 0)
            return true;
        const std::uint64_t align = notes.p_align == 8 ? 7 : 3;
        at += (sizeof note.header + note.header.n_namesz + align) & ~align;
        at += (note.header.n_descsz + align) & ~align;
    }
    return false;
}

// Bytes of the file at offset: from its beginning, which has been read, or else by a read. Null if there
// aren't so many.
inline const char* piece(const File& file, const char* head, std::size_t head_length, std::uint64_t offset,
                         std::size_t length, char* room) {
    if (offset <= head_length && length <= head_length - offset) return head + offset;
    return file.read(room, length, offset) == length ? room : nullptr;
}

// Has the program a segment of notes with ours in it? Asked of static programs only.
inline bool own_program_file(const File& file, const Elf64_Ehdr& header) {
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr segment;
        if (file.read(&segment, sizeof segment, header.e_phoff + i * sizeof segment) != sizeof segment)
            return false;
        if (segment.p_type == PT_NOTE && has_own_note(file, segment)) return true;
    }
    return false;
}

inline void judge_elf(ProgramCheck& check, const File& file, const char* head, std::size_t size,
                      const struct stat& status) {
    Elf64_Ehdr header;
    if (head[EI_CLASS] != ELFCLASS64)
        return judge(check, ProgramKind::other_machine, "32-bit program; only x86-64 programs can be saved");
    if (size < sizeof header) return judge(check, ProgramKind::unknown_format, "cut ELF file", ENOEXEC);
    std::memcpy(&header, head, sizeof header);
    if (header.e_machine != EM_X86_64)
        return judge(check, ProgramKind::other_machine,
                     "built for another machine; only x86-64 can be saved");
    if (header.e_phentsize != sizeof(Elf64_Phdr))
        return judge(check, ProgramKind::unknown_format, "damaged ELF file", ENOEXEC);
    if (at_secure(file.fd, status))
        return judge(check, ProgramKind::secure,
                     "set-id or file capabilities: the loader ignores LD_PRELOAD");
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr segment;
        char room[sizeof segment], loader[256] = {};
        const char* found =
            piece(file, head, size, header.e_phoff + i * sizeof segment, sizeof segment, room);
        if (found == nullptr) break;
        std::memcpy(&segment, found, sizeof segment);
        if (segment.p_type != PT_INTERP) continue;
        const std::size_t length = segment.p_filesz < sizeof loader ? segment.p_filesz : sizeof loader;
        found = piece(file, head, size, segment.p_offset, length, loader);
        if (length == 0 || found == nullptr) break;
        if (found != loader) std::memcpy(loader, found, length);
        loader[length - 1] = '\0';
        if (!glibc_loader(loader))
            return judge(check, ProgramKind::other_loader, "not a glibc program (its ELF loader is another)");
        return;
    }
    // The loader itself, run as a command with a program as its argument, obeys LD_PRELOAD.
    if (glibc_loader(check.file)) return;
    if (own_program_file(file, header))
        return judge(check, ProgramKind::own_tool, "cairn's own command, no part of the group");
    judge(check, ProgramKind::static_program, "static program: it doesn't load libcairn.so");
}

// The interpreter of a #! line, NUL-terminated in place; null if there is none (fs/binfmt_script.c).
inline const char* script_interpreter(char* head, std::size_t size) {
    char* const end = head + size;
    char* begin = head + 2;
    while (begin < end && (*begin == ' ' || *begin == '\t')) ++begin;
    char* stop = begin;
    while (stop < end && *stop != ' ' && *stop != '\t' && *stop != '\n' && *stop != '\0') ++stop;
    if (stop == begin) return nullptr;
    *stop = '\0';
    return begin;
}

inline void judge_open_failure(ProgramCheck& check, int error) {
    switch (error) {
        case ENOENT:
        case ENOTDIR:
            return judge(check, ProgramKind::not_found, "not found", error);
        case EACCES:
        case ELOOP:
        case ENAMETOOLONG:
        case EISDIR:
            return judge(check, ProgramKind::not_executable, "can't be executed", error);
        default:
            return judge(check, ProgramKind::unchecked, "couldn't be looked at", error);
    }
}

}  // namespace elf_check_detail

// The verdict on execveat(directory, path, ..., flags); flags may be AT_EMPTY_PATH and AT_SYMLINK_NOFOLLOW,
// as there. Follows #! lines to the program that the kernel would run. The file may change before it is
// executed: a verdict is a courtesy to the user, nothing may depend on it for safety. What security modules
// (SELinux, AppArmor) add to AT_SECURE can't be seen from here.
inline ProgramCheck check_program(int directory, const char* path, int flags = 0) {
    namespace detail = elf_check_detail;
    const detail::Errno keep;
    ProgramCheck check;
    if (path == nullptr) {
        detail::judge_open_failure(check, EFAULT);
        return check;
    }
    char head[detail::first_read + 1];
    for (int depth = 0; depth <= detail::script_depth; ++depth) {
        detail::copy_path(check.file, path);
        const bool by_descriptor = (flags & AT_EMPTY_PATH) != 0 && path[0] == '\0';
        if (by_descriptor) detail::copy_path(check.file, "(program given as a descriptor)");
        const long access = ::syscall(SYS_faccessat2, directory, path, X_OK, flags | AT_EACCESS);
        if (access != 0 && errno != ENOSYS && errno != EPERM) {
            detail::judge_open_failure(check, errno);
            return check;
        }
        char link[40];
        if (by_descriptor) detail::descriptor_link(link, directory);
        const int nofollow = (flags & AT_SYMLINK_NOFOLLOW) != 0 && !by_descriptor ? O_NOFOLLOW : 0;
        const detail::File file(static_cast<int>(::syscall(
            SYS_openat, by_descriptor ? AT_FDCWD : directory, by_descriptor ? link : path,
            O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | nofollow)));  // O_NONBLOCK: it may be a FIFO
        if (file.fd < 0) {
            if (errno == EACCES)
                detail::judge(check, ProgramKind::unreadable, "may be executed but not read: can't be saved",
                              EACCES);
            else if (by_descriptor)
                detail::judge(check, ProgramKind::unchecked, "couldn't be looked at", errno);
            else
                detail::judge_open_failure(check, errno);
            return check;
        }
        struct stat status = {};
        if (::syscall(SYS_fstat, file.fd, &status) != 0 || !S_ISREG(status.st_mode)) {
            detail::judge(check, ProgramKind::not_executable, "not a regular file", EACCES);
            return check;
        }
        const std::size_t size = file.read(head, detail::first_read, 0);
        if (size > EI_CLASS && std::memcmp(head, ELFMAG, SELFMAG) == 0) {
            detail::judge_elf(check, file, head, size, status);
            return check;
        }
        if (size < 2 || head[0] != '#' || head[1] != '!') {
            detail::judge(check, ProgramKind::unknown_format, "neither an ELF program nor a #! script",
                          ENOEXEC);
            return check;
        }
        const char* interpreter =
            detail::script_interpreter(head, size < detail::head_size ? size : detail::head_size);
        if (interpreter == nullptr) {
            detail::judge(check, ProgramKind::unknown_format, "a #! line without an interpreter", ENOEXEC);
            return check;
        }
        // head is read over in the next turn: keep the name where the verdict is. It has at most 254
        // characters.
        detail::copy_path(check.file, interpreter);
        std::memmove(head, check.file, sizeof check.file);
        path = head;  // the next turn reads into head only after it has used path for the last time
        directory = AT_FDCWD;
        flags = 0;
    }
    detail::judge(check, ProgramKind::not_executable, "too many levels of #! interpreters", ELOOP);
    return check;
}

}  // namespace cairn
