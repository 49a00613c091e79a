#include "resources/system_v/restore.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "common/fd.h"
#include "common/image/hash.h"
#include "common/proc.h"

namespace cairn::restart {
namespace {

constexpr unsigned segment_removed = 01000;  // SHM_DEST, linux/shm.h

union Semun {
    int value;
    semid_ds* about;
    unsigned short* array;
};

// The id that the next object of a kind gets: kernel.*_next_id, needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN
// and CONFIG_CHECKPOINT_RESTORE. Without it the programs' id is translated.
void ask_for_id(const char* what, std::int32_t id) {
    const Fd file(::open(fmt::format("/proc/sys/kernel/{}_next_id", what).c_str(), O_WRONLY | O_CLOEXEC));
    const auto text = fmt::format("{}", id);
    if (file) (void)!::write(file.get(), text.data(), text.size());
}

// What is there of an object. `look(id)` says whether the one of this id is it; `get(key, flags)` is shmget,
// semget or msgget.
template <class Look, class Get>
Result<std::pair<int, bool>> find_or_make(const char* kind, const char* what,
                                          const schema::IpcPermissions& wanted, IpcMap& map, IpcKind which,
                                          Look look, Get get, bool removed = false) {
    // By what another part of this restart, or an earlier one, calls it; by its id; by its key.
    const int known = wanted.space ? -1 : ipc_to_real(map, which, wanted.id);
    if (!removed && known >= 0 && look(known)) return std::pair(known, false);
    if (wanted.key != IPC_PRIVATE)
        if (const int other = get(wanted.key, 0); other >= 0 && look(other)) return std::pair(other, false);
    ask_for_id(what, wanted.id);
    const int id = get(wanted.key, IPC_CREAT | IPC_EXCL | static_cast<int>(wanted.mode | 0600));
    if (id >= 0 && wanted.space && id != wanted.id)
        return fail_code(ExitCode::refused,
                         "System V {} {} of an IPC namespace of the programs' own can't have this id again: "
                         "the kernel gave {} (/proc/sys/kernel/{}_next_id; it has to know "
                         "CONFIG_CHECKPOINT_RESTORE, and users other than root may use it since Linux 5.16)",
                         kind, wanted.id, id, what);
    if (id >= 0) return std::pair(id, true);
    if (errno == EEXIST)
        return fail_code(
            ExitCode::refused,
            "System V {} {}: its key {:#x} belongs to one of another size by now: see `ipcs`, remove it "
            "with `ipcrm`",
            kind, wanted.id, static_cast<std::uint32_t>(wanted.key));
    return fail_errno("System V {} {} can't be made again", kind, wanted.id);
}

// Who makes an object owns it. Only root can give it to somebody else.
template <class Control, class About>
void set_owner(const schema::IpcPermissions& wanted, About& about, ipc_perm& permission, Control control) {
    if (control(IPC_STAT, about) != 0) return;
    if (permission.uid == wanted.uid && permission.gid == wanted.gid &&
        (permission.mode & 0777U) == wanted.mode)
        return;
    permission.uid = wanted.uid;
    permission.gid = wanted.gid;
    permission.mode = static_cast<decltype(permission.mode)>(wanted.mode);
    (void)control(IPC_SET, about);
}

// Pages that are zero already stay untouched.
void clear(std::uint8_t* begin, std::uint64_t from, std::uint64_t to) {
    constexpr std::uint64_t page = image_page;
    for (; from < to; from += page) {
        const auto length = std::min(page, to - from);
        if (std::any_of(begin + from, begin + from + length, [](std::uint8_t byte) { return byte != 0; }))
            std::memset(begin + from, 0, length);
    }
}

Result<> fill_attached(const ImageReader& image, const schema::Object& object, std::uint8_t* begin,
                       bool fresh) {
    const auto& saved = *object.get<schema::Memory>();
    auto runs = saved.pages;
    std::ranges::sort(runs, {}, &schema::ObjectRun::at);
    std::uint64_t end = 0;
    PageReader pages(image);
    schema::Bytes piece(image_max_run);
    for (const schema::ObjectRun& run : runs) {
        CHECK_OK(image.check_run(run));
        if (run.at >= saved.size || run.at < end)
            return fail_code(ExitCode::damaged, "{}: {} has pages beyond its end", image.path(), object.path);
        if (!fresh) clear(begin, end, run.at);
        CHECK_OK(pages.read_run(run, piece));
        std::memcpy(begin + run.at, piece.data(), std::min(run.length, saved.size - run.at));
        end = run.at + run.length;
    }
    if (!fresh) clear(begin, end, saved.size);
    return {};
}

Result<> fill(const ImageReader& image, const schema::Object& object, int id, bool fresh) {
    void* memory = ::shmat(id, nullptr, 0);
    if (memory == reinterpret_cast<void*>(-1)) return fail_errno("System V segment {} can't be attached", id);
    auto filled = fill_attached(image, object, static_cast<std::uint8_t*>(memory), fresh);
    ::shmdt(memory);
    return filled;
}

// Who was killed just now may have it attached for a moment more.
bool is_attached(int id) {
    constexpr int tries = 150, slice_us = 20'000;
    shmid_ds about{};
    for (int i = 0; i < tries; ++i) {
        if (::shmctl(id, IPC_STAT, &about) != 0 || about.shm_nattch == 0) return false;
        ::usleep(slice_us);
    }
    return true;
}

}  // namespace

// A segment of huge pages gets all of them when it is made.
struct HugeSegment {
    explicit HugeSegment(const schema::Memory& memory) {
        const auto memfd_flags = static_cast<unsigned>(memory.memfd_flags);
        if ((memfd_flags & MFD_HUGETLB) == 0) return;
        const auto size_log2 = memfd_flags >> MFD_HUGE_SHIFT & 63U;
        flags = static_cast<int>(SHM_HUGETLB | size_log2 << MFD_HUGE_SHIFT);
        page = std::uint64_t{1} << size_log2;
    }

    // Those who were killed a moment ago may still be giving theirs back.
    [[nodiscard]] int get(key_t key, std::uint64_t size, int others) const {
        constexpr int tries = 100, slice_us = 20'000;
        int id = -1;
        for (int i = 0; i < tries; ++i) {
            id = ::shmget(key, size, others | flags);
            if (id >= 0 || errno != ENOMEM || flags == 0) break;
            ::usleep(slice_us);
        }
        return id;
    }

    // Its pages are as large; only what is attached tells.
    [[nodiscard]] bool is_like(int id) const {
        if (flags == 0) return true;
        void* const at = ::shmat(id, nullptr, SHM_RDONLY);
        if (at == reinterpret_cast<void*>(-1)) return false;
        const ProgramAddress begin(reinterpret_cast<std::uint64_t>(at));
        const auto lines = proc::maps(::getpid(), true).value_or(std::vector<proc::MapLine>{});
        const auto line = std::ranges::find(lines, begin, &proc::MapLine::start);
        const bool same = line != lines.end() && line->page_size == page;
        ::shmdt(at);
        return same;
    }

    [[nodiscard]] Error explained(Error error) const {
        if (flags == 0 || (error.number != ENOMEM && error.number != EPERM)) return error;
        error.code = ExitCode::refused;
        error.what += error.number == EPERM
                          ? " (huge pages of System V are for root and for the group of "
                            "/proc/sys/vm/hugetlb_shm_group)"
                          : " of huge pages, of which too few are free (/proc/sys/vm/nr_hugepages, and those "
                            "of other sizes in /sys/kernel/mm/hugepages, say how many the machine keeps)";
        return error;
    }

    int flags = 0;
    std::uint64_t page = image_page;
};

bool is_system_v(const schema::Object& object) {
    const auto* memory = object.get<schema::Memory>();
    return (memory != nullptr && memory->segment) || object.is<schema::Semaphores>() ||
           object.is<schema::MessageQueue>();
}

namespace {

const schema::IpcPermissions& permissions_of(const schema::Object& object) {
    if (const auto* memory = object.get<schema::Memory>()) return memory->segment->permissions;
    if (const auto* semaphores = object.get<schema::Semaphores>()) return semaphores->permissions;
    return std::get<schema::MessageQueue>(object.what).permissions;
}

}  // namespace

struct SystemV::Opening {
    const ImageReader& image;
    IpcMap& map;
    std::vector<std::string>& notes;

    Result<One> segment(const schema::Object& object, const schema::Memory& memory,
                        const schema::Segment& saved) {
        const auto size = memory.size;
        schema::IpcPermissions wanted = saved.permissions;
        if (saved.removed) wanted.key = IPC_PRIVATE;
        const HugeSegment huge(memory);
        One made{IpcKind::memory, wanted.id, wanted.id, false, saved.removed, object.id, size, huge.page};
        shmid_ds about{};
        const auto is_it = [&](int id) {
            return ::shmctl(id, IPC_STAT, &about) == 0 && about.shm_perm.__key == wanted.key &&
                   about.shm_segsz == size && (about.shm_perm.mode & segment_removed) == 0 &&
                   huge.is_like(id) &&
                   // another copy of the program may be running on it
                   (wanted.key != IPC_PRIVATE || !is_attached(id));
        };
        const auto get = [&](key_t key, int flags) {
            return (flags & IPC_CREAT) == 0 ? ::shmget(key, 0, flags) : huge.get(key, size, flags);
        };
        auto found = find_or_make("segment", "shm", wanted, map, made.kind, is_it, get, saved.removed);
        if (!found) return std::unexpected(huge.explained(std::move(found.error())));
        std::tie(made.real, made.created) = *found;
        if (!made.created && is_attached(made.real)) {
            if (!object.outside)
                return fail_code(
                    ExitCode::refused,
                    "System V segment {} (key {:#x}) is attached by somebody else now, who would see its "
                    "contents change: end those programs first (`ipcs -m -p` names them)",
                    wanted.id, static_cast<std::uint32_t>(wanted.key));
            notes.push_back(
                fmt::format("System V segment {} is attached by programs outside: its contents are the "
                            "checkpoint's again",
                            wanted.id));
        }
        auto filled = fill(image, object, made.real, made.created);
        if (!filled && made.created) ::shmctl(made.real, IPC_RMID, nullptr);
        if (!filled) return std::unexpected(std::move(filled.error()));
        set_owner(wanted, about, about.shm_perm,
                  [&](int command, shmid_ds& state) { return ::shmctl(made.real, command, &state); });
        if (saved.locked && ::shmctl(made.real, SHM_LOCK, nullptr) != 0)
            notes.push_back(fmt::format("System V segment {} can't be locked in memory (SHM_LOCK): {}",
                                        wanted.id, std::strerror(errno)));
        return made;
    }

    Result<One> semaphores(const schema::Object& object, const schema::Semaphores& saved) {
        const schema::IpcPermissions& wanted = saved.permissions;
        std::vector<unsigned short> values = saved.values;
        One made{IpcKind::semaphores, wanted.id, wanted.id, false, false, object.id, 0};
        semid_ds about{};
        const auto control = [&about](int id, int command) {
            Semun argument{};
            argument.about = &about;
            return ::semctl(id, 0, command, argument);
        };
        const auto is_it = [&](int id) {
            return control(id, IPC_STAT) == 0 && about.sem_perm.__key == wanted.key &&
                   about.sem_nsems == values.size();
        };
        auto found =
            find_or_make("semaphores", "sem", wanted, map, made.kind, is_it, [&](key_t key, int flags) {
                return ::semget(key, (flags & IPC_CREAT) != 0 ? static_cast<int>(values.size()) : 0, flags);
            });
        if (!found) return std::unexpected(std::move(found.error()));
        std::tie(made.real, made.created) = *found;
        Semun argument{};
        argument.array = values.data();
        if (::semctl(made.real, 0, SETALL, argument) != 0)
            return fail_errno("System V semaphores {}: values", wanted.id);
        set_owner(wanted, about, about.sem_perm,
                  [&](int command, semid_ds&) { return control(made.real, command); });
        return made;
    }

    Result<One> queue(const schema::Object& object, const schema::MessageQueue& saved) {
        const schema::IpcPermissions& wanted = saved.permissions;
        One made{IpcKind::messages, wanted.id, wanted.id, false, false, object.id, 0};
        msqid_ds about{};
        const auto is_it = [&](int id) {
            return ::msgctl(id, IPC_STAT, &about) == 0 && about.msg_perm.__key == wanted.key;
        };
        auto found = find_or_make("message queue", "msg", wanted, map, made.kind, is_it,
                                  [](key_t key, int flags) { return ::msgget(key, flags); });
        if (!found) return std::unexpected(std::move(found.error()));
        std::tie(made.real, made.created) = *found;
        CHECK_OK(put_messages(made.real, saved));
        set_owner(wanted, about, about.msg_perm,
                  [&](int command, msqid_ds& state) { return ::msgctl(made.real, command, &state); });
        return made;
    }

    static Result<> put_messages(int id, const schema::MessageQueue& saved) {
        msqid_ds about{};
        std::vector<long> buffer(65536 / sizeof(long) + 1);
        while (::msgrcv(id, buffer.data(), 65536, 0, IPC_NOWAIT | MSG_NOERROR) >= 0) {
        }
        if (::msgctl(id, IPC_STAT, &about) == 0 && about.msg_qbytes != saved.bytes) {
            about.msg_qbytes = saved.bytes;
            if (::msgctl(id, IPC_SET, &about) != 0)
                return fail_errno("System V message queue {}: room for {} bytes", saved.permissions.id,
                                  saved.bytes);
        }
        for (const auto& [type, bytes] : saved.messages) {
            buffer.resize(std::max(buffer.size(), bytes.size() / sizeof(long) + 2));
            buffer[0] = type;
            if (!bytes.empty()) std::memcpy(buffer.data() + 1, bytes.data(), bytes.size());
            if (::msgsnd(id, buffer.data(), bytes.size(), IPC_NOWAIT) != 0)
                return fail_errno("System V message queue {}: a message of {} bytes", saved.permissions.id,
                                  bytes.size());
        }
        return {};
    }

    Result<One> open(const schema::Object& object) {
        if (const auto* saved = object.get<schema::Memory>()) return segment(object, *saved, *saved->segment);
        if (const auto* saved = object.get<schema::Semaphores>()) return semaphores(object, *saved);
        return queue(object, std::get<schema::MessageQueue>(object.what));
    }
};

Result<> SystemV::open_all(const schema::Objects& objects, const ImageReader& image, IpcMap& map,
                           const InSpace& in_space, std::vector<std::string>& notes) {
    Opening opening{image, map, notes};
    for (const schema::Object& object : objects.objects) {
        if (!is_system_v(object)) continue;
        const auto space = permissions_of(object).space;
        One made;
        const auto open = [&]() -> Result<> {
            made = TRY(opening.open(object));
            return {};
        };
        CHECK_OK(space ? in_space(*space, open) : open());
        made.space = space;
        all_.push_back(made);
        if (space) continue;
        if (!bind_ipc(map, made.kind, made.id, made.real))
            return fail("the session's table of System V objects is full");
    }
    return {};
}

int SystemV::segment(std::int64_t object) const {
    const auto found = std::ranges::find(all_, object, &One::object);
    return found == all_.end() || found->kind != IpcKind::memory ? -1 : found->real;
}

std::uint64_t SystemV::size(std::int64_t object) const {
    const auto found = std::ranges::find(all_, object, &One::object);
    return found == all_.end() ? 0 : (found->size + found->page - 1) / found->page * found->page;
}

std::uint64_t SystemV::page(std::int64_t object) const {
    const auto found = std::ranges::find(all_, object, &One::object);
    return found == all_.end() ? image_page : found->page;
}

bool SystemV::is_in_own(std::int64_t object) const {
    const auto found = std::ranges::find(all_, object, &One::object);
    return found != all_.end() && found->space;
}

std::optional<std::int64_t> SystemV::own_space_of(const schema::Process& process) const {
    if (!process.namespaces) return std::nullopt;
    for (const One& each : all_)
        if (each.space && std::ranges::find(*process.namespaces, *each.space) != process.namespaces->end())
            return each.space;
    return std::nullopt;
}

Result<> SystemV::attached(const InSpace& in_space) {
    for (const One& each : all_) {
        if (each.kind != IpcKind::memory || !each.removed) continue;
        const auto remove = [&]() -> Result<> {
            ::shmctl(each.real, IPC_RMID, nullptr);
            return {};
        };
        CHECK_OK(each.space ? in_space(*each.space, remove) : remove());
    }
    return {};
}

void SystemV::undo() {
    for (const One& each : all_) {
        if (!each.created || each.space) continue;
        if (each.kind == IpcKind::memory) ::shmctl(each.real, IPC_RMID, nullptr);
        if (each.kind == IpcKind::semaphores) ::semctl(each.real, 0, IPC_RMID);
        if (each.kind == IpcKind::messages) ::msgctl(each.real, IPC_RMID, nullptr);
    }
}

}  // namespace cairn::restart
