// System V shared memory, semaphores and message queues: those that members have asked for (the region says
// which), and segments that they have attached. They belong to nobody, and live on when all who use them have
// gone.
#include "resources/memory/capture.h"

#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <sstream>

#include "resources/namespace/capture_own.h"

namespace cairn::capture {
namespace {

// In linux/shm.h and linux/msg.h, which don't go together with libc's.
constexpr unsigned segment_removed = 01000, segment_locked = 02000;

union Semun {
    int value;
    semid_ds* about;
    unsigned short* array;
};

// Where an object is, and what it is called there.
struct Place {
    std::int64_t space = -1;  // the IPC namespace of the group's own, by its object's id; -1: ours
    std::int32_t program_id = 0;
    int real = 0;  // the kernel's id
};

schema::IpcPermissions permissions(const ipc_perm& permission, const Place& place) {
    return {place.program_id, permission.__key, permission.mode & 0777U,
            permission.uid,   permission.gid,   place.space < 0 ? std::nullopt : std::optional(place.space)};
}

// It has been removed since somebody asked for it, or may not be looked at: its owner has forbidden it to
// himself.
bool is_gone(int problem) {
    return problem == EINVAL || problem == EIDRM;
}

bool is_attached_segment(const Table& table, const Memory& memory) {
    const schema::Object& object = table.objects[static_cast<std::size_t>(memory.object)];
    return object.get<schema::Memory>()->type == schema::MemoryType::sysv;
}

Result<> capture_segment(Table& table, const Place& place) {
    const auto [space, program_id, real] = place;
    shmid_ds about{};
    if (::shmctl(real, IPC_STAT, &about) != 0) {
        if (is_gone(errno)) return {};
        return fail_errno("System V segment {}", program_id);
    }
    auto& memories = table.of<MemoriesFound>();
    const auto attached = std::ranges::find_if(memories.all, [&](const auto& each) {
        return each.first.inode.number == static_cast<ino_t>(real) && each.first.space == place.space &&
               is_attached_segment(table, each.second);
    });
    std::size_t attached_here = 0;
    schema::Object* object = nullptr;
    if (attached != memories.all.end()) {
        object = &table.objects[static_cast<std::size_t>(attached->second.object)];
        attached_here = attached->second.mappings.size();
    } else {
        object = &table.add(schema::Memory{});
        object->path = fmt::format("/SYSV{:08x}", static_cast<std::uint32_t>(about.shm_perm.__key));
        memories.unattached.push_back({object->id, real, space});
    }
    auto& saved = *object->get<schema::Memory>();
    saved.type = schema::MemoryType::sysv;
    saved.size = about.shm_segsz;
    saved.segment =
        schema::Segment{permissions(about.shm_perm, place), (about.shm_perm.mode & segment_removed) != 0,
                        (about.shm_perm.mode & segment_locked) != 0};
    object->outside = about.shm_nattch > attached_here;
    if (space >= 0 && about.shm_nattch < attached_here)
        return fail_code(
            ExitCode::refused,
            "System V segment {} is attached {} times, and members of the group that are in its "
            "IPC namespace have {} of that id: one is of another namespace, which can't be saved",
            program_id, about.shm_nattch, attached_here);
    if (object->outside)
        table.note("System V segment {} is attached {} times, {} of them by members of the group: {}",
                   program_id, about.shm_nattch, attached_here,
                   space < 0 ? "a restart puts its contents back for everybody"
                             : "after a restart who is outside has the old one");
    return {};
}

Result<> capture_semaphores(Table& table, const Place& place) {
    const auto [space, program_id, real] = place;
    semid_ds about{};
    Semun argument{};
    argument.about = &about;
    if (::semctl(real, 0, IPC_STAT, argument) != 0) {
        if (is_gone(errno)) return {};
        return fail_errno("System V semaphores {}", program_id);
    }
    std::vector<unsigned short> values(about.sem_nsems);
    argument.array = values.data();
    if (::semctl(real, 0, GETALL, argument) != 0)
        return fail_errno("System V semaphores {}: values", program_id);
    schema::Object& object =
        table.add(schema::Semaphores{permissions(about.sem_perm, place), std::move(values)});
    object.path = fmt::format("System V semaphores {}", program_id);
    return {};
}

// MSG_COPY (since Linux 3.8, CONFIG_CHECKPOINT_RESTORE) reads the nth message and leaves it where it is.
Result<> capture_queue(Table& table, const Place& place) {
    const auto [space, program_id, real] = place;
    msqid_ds about{};
    if (::msgctl(real, IPC_STAT, &about) != 0) {
        if (is_gone(errno)) return {};
        return fail_errno("System V message queue {}", program_id);
    }
    std::vector<schema::IpcMessage> messages;
    std::vector<long> buffer(about.__msg_cbytes / sizeof(long) + 2);
    for (msgqnum_t i = 0; i < about.msg_qnum; ++i) {
        const ssize_t size =
            ::msgrcv(real, buffer.data(), about.__msg_cbytes, static_cast<long>(i), MSG_COPY | IPC_NOWAIT);
        if (size < 0)
            return fail_errno("System V message queue {}: message {} of {} can't be read without taking it",
                              program_id, i, about.msg_qnum);
        const auto* text = reinterpret_cast<const std::uint8_t*>(buffer.data() + 1);
        messages.push_back({buffer[0], schema::Bytes(text, text + size)});
    }
    schema::Object& object = table.add(
        schema::MessageQueue{permissions(about.msg_perm, place), about.msg_qbytes, std::move(messages)});
    object.path = fmt::format("System V message queue {}", program_id);
    return {};
}

Result<> capture_one(Table& table, IpcKind kind, const Place& place) {
    switch (kind) {
        case IpcKind::memory:
            return capture_segment(table, place);
        case IpcKind::semaphores:
            return capture_semaphores(table, place);
        case IpcKind::messages:
            return capture_queue(table, place);
    }
    return {};
}

constexpr std::array ipc_kinds = {std::pair(IpcKind::memory, "shm"), std::pair(IpcKind::semaphores, "sem"),
                                  std::pair(IpcKind::messages, "msg")};

// In that namespace: all that there is in it is the group's.
Result<> capture_all_there(Table& table, std::int64_t space) {
    for (const auto& [kind, name] : ipc_kinds) {
        const std::string path = fmt::format("/proc/sysvipc/{}", name);
        std::ifstream file(path);
        if (!file) return fail_errno("{}", path);
        std::string line;
        std::getline(file, line);  // what the columns are called
        while (std::getline(file, line)) {
            std::istringstream words(line);
            std::int64_t key = 0;
            std::int32_t id = 0;
            words >> key >> id;
            CHECK_OK(capture_one(table, kind, {space, id, id}));
        }
    }
    return {};
}

// One that was attached before its process has gone into another IPC namespace is none of those that are
// there, but may have the id of one.
Result<> refuse_others_segments(const Table& table) {
    for (const auto& [key, memory] : table.of<MemoriesFound>().all) {
        if (!is_attached_segment(table, memory)) continue;
        const auto& object = table.objects[static_cast<std::size_t>(memory.object)];
        if (!object.get<schema::Memory>()->segment && key.space >= 0)
            return fail_code(
                ExitCode::refused,
                "{} has attached a System V segment ({}) of another IPC namespace than it is in, which can't "
                "be saved",
                name_of(memory.mappings.front().first), object.path);
    }
    return {};
}

}  // namespace

Result<> ObjectTable::system_v(IpcMap& map) {
    Table& table = *table_;
    if (map.lost.load() != 0)
        return fail_code(
            ExitCode::refused,
            "the session's programs use more than {} System V objects, or more than {} semaphores with "
            "SEM_UNDO at once: more than can be kept track of",
            ipc_map_size, undo_map_size);
    std::set<std::pair<IpcKind, std::int32_t>> all;
    for (const IpcEntry& entry : map.entries)
        if (const std::uint64_t known = entry.known.load(); known != 0)
            all.emplace(ipc_kind(known), entry.real.load());
    // The inode of an attached segment is its id.
    for (const auto& [key, memory] : table.of<MemoriesFound>().all)
        if (key.space < 0 && is_attached_segment(table, memory))
            all.emplace(IpcKind::memory, static_cast<std::int32_t>(key.inode.number));
    for (const auto& [kind, real] : all)
        CHECK_OK(capture_one(table, kind, {-1, ipc_to_program(map, kind, real), real}));
    for (const std::int64_t space : own_ipcs(table))
        CHECK_OK(in_own_space(table, space, [&] { return capture_all_there(table, space); }));
    return refuse_others_segments(table);
}

bool ObjectTable::is_in_own_ipc(const Holder& holder) const {
    return own_ipc_of(*table_, holder) >= 0;
}

std::multimap<pid_t, schema::SemaphoreUndo> promised_undo(const IpcMap& map, bool in_own) {
    // A process is in one namespace only; of a call that has slept through a restart it may have the old
    // name.
    constexpr std::uint64_t undo_in_any = (std::uint64_t{1} << 48) - 1;
    std::map<std::pair<pid_t, std::uint64_t>, std::int32_t> sums;
    if (map.promised.load() != 0)
        for (const UndoEntry& entry : map.undo)
            if (const pid_t pid = entry.pid.load(); pid > 0)
                if (const auto semaphore = entry.semaphore.load(); ((semaphore & undo_in_own) != 0) == in_own)
                    sums[{pid, semaphore & undo_in_any}] += entry.adjust.load();
    std::multimap<pid_t, schema::SemaphoreUndo> promised;
    for (const auto& [who, adjust] : sums)
        if (adjust != 0)
            promised.emplace(who.first,
                             schema::SemaphoreUndo{undo_semaphores(who.second),
                                                   static_cast<std::int32_t>(who.second & 0xffff), adjust});
    return promised;
}

}  // namespace cairn::capture
