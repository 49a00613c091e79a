// Rings of io_uring(7). A ring is saved when nothing is under way in it. The kernel tells neither what is nor
// how much, but the ring itself does: every request completes once, so what the kernel has taken (the head of
// the submission queue) less what it has completed (the tail of the other) is under way. Some requests
// complete more often or not at all; who has used one lately is refused, because there the count says
// nothing.
//
// All threads of the group are in the agent while this runs, and not in a stop of ptrace's: the kernel
// completes many requests in the thread that has submitted them, when that goes back to user mode
// (task_work).
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>
#include <tuple>

#include "resources/capture/table.h"
#include "resources/io_uring/schema_ring.h"

namespace cairn::capture {
namespace {

// Newer than Debian 12's headers: linux/io_uring.h of 6.8.
constexpr unsigned register_pbuf_status = 26;
constexpr std::uint32_t buffer_groups = 1 << 16;
constexpr std::uint8_t op_provide_buffers = 31, op_msg_ring = 40;
constexpr std::uint8_t request_buffer_select = 1 << 5, request_skips_completion = 1 << 6;
constexpr std::uint32_t completion_of_buffer = 1, completion_has_more = 2, completion_is_notification = 8;

// How long the group stands still for what a disk is about to complete.
constexpr auto patience = std::chrono::milliseconds(100);

struct Opened {
    ino_t inode = 0;
    bool hidden = false;  // whether an eventfd is told of completions can't be asked
    io_uring_params parameters{};
    RingMemory shared, requests;
    std::set<pid_t> mapped_by;
};

struct RingsFound {
    std::map<std::int64_t, Opened> all;  // by object id; until the programs go on
    std::vector<std::pair<std::string, Fd>> asked_later;
};

int register_at(int fd, unsigned operation, void* argument, unsigned count) {
    return static_cast<int>(::syscall(SYS_io_uring_register, fd, operation, argument, count));
}

Result<io_uring_params> own_ring(std::uint32_t entries, std::uint32_t completions) {
    io_uring_params parameters{};
    const Fd ring = set_up_ring(entries, completions, parameters);
    if (!ring)
        return fail_code(
            ExitCode::refused,
            "is an io_uring, and whoever takes the checkpoint may not set one up ({}), which tells how the "
            "kernel lays it out (sysctl kernel.io_uring_disabled)",
            std::strerror(errno));
    return parameters;
}

// Where the numbers stand that tell the sizes is the same in all rings of a kernel.
Result<Opened> open_ring(int fd) {
    const auto small = TRY(own_ring(1, 2));
    auto head = RingMemory::map(fd, IORING_OFF_SQ_RING, small.cq_off.cqes);
    if (!head && head.error().number == EINVAL)
        return fail_code(
            ExitCode::refused,
            "is an io_uring in memory of the program's own (IORING_SETUP_NO_MMAP), which can't be saved");
    if (!head) return std::unexpected(std::move(head.error()));
    const std::uint32_t entries = head->load(small.sq_off.ring_entries),
                        completions = head->load(small.cq_off.ring_entries);
    if (!std::has_single_bit(entries) || !std::has_single_bit(completions) || entries > ring_max_entries ||
        completions > ring_max_completions)
        return fail_code(ExitCode::refused, "is an io_uring whose sizes have been overwritten: {} and {}",
                         entries, completions);
    Opened opened;
    opened.parameters = TRY(own_ring(entries, completions));
    opened.shared = TRY(RingMemory::map(fd, IORING_OFF_SQ_RING, ring_length(opened.parameters)));
    opened.requests = TRY(RingMemory::map(fd, IORING_OFF_SQES, requests_length(opened.parameters)));
    return opened;
}

// What can't be seen, but asked for by calls that do nothing: in both, what is asked here is looked at before
// what is wrong with the call. `hidden`: only the thread that has set the ring up may ask
// (IORING_SETUP_SINGLE_ISSUER).
Result<> refuse_hidden(int fd, bool& hidden) {
    if (::syscall(SYS_io_uring_enter, fd, 0U, 0U, 0U, nullptr, 0UL) < 0 && errno == EBADFD)
        return fail_code(
            ExitCode::refused,
            "is an io_uring that isn't enabled yet (IORING_SETUP_R_DISABLED), which can't be saved");
    const int answer = register_at(fd, IORING_REGISTER_EVENTFD, nullptr, 1) < 0 ? errno : 0;
    hidden = answer == EEXIST;
    if (answer == EBUSY)
        return fail_code(
            ExitCode::refused,
            "is an io_uring that tells an eventfd of its completions (IORING_REGISTER_EVENTFD), and the "
            "kernel doesn't say which: this can't be saved");
    if (answer == EACCES)
        return fail_code(
            ExitCode::refused,
            "is an io_uring with restrictions (IORING_REGISTER_RESTRICTIONS), which can't be saved");
    if (answer != EFAULT && !hidden) {
        errno = answer;
        return fail_errno("io_uring_register");
    }
    return {};
}

// Before Linux 6.8 there is no such question, and the answer is EINVAL whatever the group.
Result<> refuse_buffer_groups(int fd, const std::string& who) {
    const auto ask = [fd](std::uint32_t group) {
        std::uint32_t status[10] = {group};
        return register_at(fd, register_pbuf_status, status, 1) == 0 ? 0 : errno;
    };
    if (ask(0) == EINVAL && ask(buffer_groups - 1) == EINVAL) return {};
    for (std::uint32_t group = 0; group < buffer_groups; ++group)
        if (ask(group) != ENOENT)
            return fail_code(
                ExitCode::refused,
                "{}: is an io_uring with buffers provided to choose from (group {}), which can't be saved",
                who, group);
    return {};
}

// Lines of a section of fdinfo, behind "name:..."
std::vector<std::string> section(std::string_view info, std::string_view name) {
    std::vector<std::string> lines;
    bool inside = false;
    for (std::size_t at = 0; at < info.size();) {
        const std::size_t end = std::min(info.find('\n', at), info.size());
        const auto line = info.substr(at, end - at);
        at = end + 1;
        if (inside && !line.starts_with(' ')) break;
        if (inside) lines.emplace_back(line);
        if (line.starts_with(name)) inside = true;
    }
    return lines;
}

// Requests that don't complete exactly once, as far as they can still be seen: of both queues the memory
// shows the last round.
bool counts_nothing(const Opened& ring) {
    const auto requests = ring.requests.bytes();
    for (std::size_t at = 0; at + sizeof(io_uring_sqe) <= requests.size(); at += sizeof(io_uring_sqe)) {
        io_uring_sqe request{};
        std::memcpy(&request, requests.data() + at, sizeof request);
        if ((request.flags & (request_skips_completion | request_buffer_select)) != 0 ||
            request.opcode == op_provide_buffers || request.opcode == op_msg_ring)
            return true;
    }
    const auto completions = ring.shared.bytes().subspan(
        ring.parameters.cq_off.cqes, std::size_t{ring.parameters.cq_entries} * sizeof(io_uring_cqe));
    for (std::size_t at = 0; at < completions.size(); at += sizeof(io_uring_cqe)) {
        std::uint32_t flags = 0;
        std::memcpy(&flags, completions.data() + at + offsetof(io_uring_cqe, flags), sizeof flags);
        if ((flags & (completion_of_buffer | completion_has_more | completion_is_notification)) != 0)
            return true;
    }
    return false;
}

struct Counts {
    std::uint32_t taken = 0, posted = 0;
    std::int32_t under_way = 0;
};

Counts count(const Opened& ring) {
    const auto& [sq, cq] = std::tie(ring.parameters.sq_off, ring.parameters.cq_off);
    Counts counts;
    counts.posted = ring.shared.load(cq.tail);
    counts.taken = ring.shared.load(sq.head);
    counts.under_way = static_cast<std::int32_t>(counts.taken - ring.shared.load(sq.dropped) - counts.posted -
                                                 ring.shared.load(cq.overflow));
    return counts;
}

Result<std::string> read_info(const Description& found) {
    return read_text(fmt::format("{}fdinfo/{}", proc_folder(found.holder), found.number));
}

// Waits for what passes soon.
Result<Counts> await_rest(const Table& table, const Description& found, const Opened& ring) {
    const auto until = std::chrono::steady_clock::now() + patience;
    for (;;) {
        const auto counts = count(ring);
        const auto info = TRY(read_info(found));
        const std::size_t polls = section(info, "PollList:").size();
        const std::size_t waiting = section(info, "CqOverflowList:").size();
        if (counts.under_way == 0 && polls == 0 && waiting == 0) return counts;
        const bool may_end = counts.under_way > static_cast<std::int32_t>(polls) && waiting == 0;
        if (may_end && std::chrono::steady_clock::now() < until) {
            if (table.options.complete) CHECK_OK(table.options.complete(found.holder, found.number));
            std::this_thread::sleep_for(std::chrono::microseconds(200));
            continue;
        }
        auto refused =
            waiting != 0 ? fail_code(ExitCode::refused,
                                     "is an io_uring with {} completions for which its queue has no room: "
                                     "they can't be saved "
                                     "before the program has taken others",
                                     waiting)
            : counts.under_way < 0
                ? fail_code(ExitCode::refused,
                            "is an io_uring in which requests have completed more than once (multishot): "
                            "what is under "
                            "way in it can't be told")
                : fail_code(ExitCode::refused,
                            "is an io_uring with {} requests under way, {} of which wait for a descriptor to "
                            "be ready: "
                            "these can't be saved; launch the program with --io-uring=enosys, or tell it to "
                            "do without",
                            std::max<std::size_t>(static_cast<std::size_t>(counts.under_way), polls), polls);
        refused.error().passing = counts.under_way >= 0;
        return refused;
    }
}

// Lines of "  12: what", without those that say "<none>".
std::vector<std::pair<std::uint32_t, std::string>> slots(std::string_view info, std::string_view name) {
    std::vector<std::pair<std::uint32_t, std::string>> found;
    for (const std::string& line : section(info, name)) {
        const std::size_t colon = line.find(": ");
        const std::string what = colon == std::string::npos ? "" : line.substr(colon + 2);
        if (!what.empty() && what != "<none>")
            found.emplace_back(static_cast<std::uint32_t>(std::strtoul(line.c_str(), nullptr, 10)), what);
    }
    return found;
}

// As the kernel writes a path there: seq_file_path() escapes these.
std::string escaped(const std::string& path) {
    std::string text;
    for (const char c : path)
        if (c == ' ' || c == '\t' || c == '\n' || c == '\\')
            text += fmt::format("\\{:03o}", static_cast<unsigned>(c));
        else
            text += c;
    return text;
}

// The kernel names a registered file, and no more: its path, before Linux 6.12 the last part of it only. So
// it is the description of that name, if there is one only.
Result<std::int64_t> registered_file(const Table& table, const std::string& name) {
    std::int64_t object = -1;
    for (const auto& [id, other] : table.descriptions) {
        const bool whole = name.find_first_of("/:") != std::string::npos;
        const std::string path = escaped(other.link);
        if (whole ? path != name : path.substr(path.rfind('/') + 1) != name) continue;
        if (object >= 0)
            return fail_code(
                ExitCode::refused,
                "is an io_uring with registered files, and {} is open more than once: which of them is "
                "registered the kernel doesn't say",
                name);
        object = id;
    }
    if (object < 0)
        return fail_code(
            ExitCode::refused,
            "is an io_uring with a registered file ({}) of which nobody has a descriptor: this can't be "
            "saved",
            name);
    return object;
}

void read_buffers(std::string_view info, schema::IoUring& saved) {
    const auto count = info_number(info, "UserBufs");
    for (const auto& [slot, what] : slots(info, "UserBufs:")) {
        saved.buffers.resize(std::max<std::size_t>(count, slot + 1));
        unsigned long long address = 0, length = 0;
        if (std::sscanf(what.c_str(), "0x%llx/%llu", &address, &length) == 2)
            saved.buffers[slot] = {length == 0 ? 0 : address, length};
    }
}

}  // namespace

Result<> describe_io_uring(Table& table, const Description& found, schema::Object& object) {
    if (info_field(found.info, "SqThread").value_or("-1") != "-1")
        return fail_code(
            ExitCode::refused,
            "is an io_uring with a thread of the kernel's (IORING_SETUP_SQPOLL), which can't be saved");
    auto ring = TRY(open_ring(found.fd()));
    bool hidden = false;
    CHECK_OK(refuse_hidden(found.fd(), hidden));
    if (counts_nothing(ring))
        return fail_code(
            ExitCode::refused,
            "is an io_uring whose program uses requests that complete more than once, or not at all "
            "(multishot, provided buffers, IOSQE_CQE_SKIP_SUCCESS, IORING_OP_MSG_RING): what is under way "
            "in it can't be told");
    if (!section(found.info, "Personalities:").empty())
        return fail_code(ExitCode::refused, "is an io_uring with personalities, which can't be saved");
    const auto counts = TRY(await_rest(table, found, ring));
    schema::IoUring saved;
    saved.entries = ring.parameters.sq_entries;
    saved.completions = ring.parameters.cq_entries;
    saved.offsets = ring_offsets(ring.parameters);
    saved.taken = counts.taken;
    saved.posted = counts.posted;
    const auto shared = ring.shared.bytes(), requests = ring.requests.bytes();
    ring.inode = found.status.st_ino;
    ring.hidden = hidden;
    saved.ring.assign(shared.begin(), shared.end());
    saved.requests.assign(requests.begin(), requests.end());
    saved.file_slots = static_cast<std::uint32_t>(info_number(found.info, "UserFiles"));
    read_buffers(found.info, saved);
    saved.holder = table.to_program(KernelId(found.holder.pid));
    object.what = std::move(saved);
    if (!hidden)
        table.of<RingsFound>().asked_later.emplace_back(found.who(), ::fcntl(found.fd(), F_DUPFD_CLOEXEC, 0));
    table.of<RingsFound>().all.emplace(object.id, std::move(ring));
    return {};
}

Result<std::int64_t> mapped_ring(Table& table, const Holder& holder, const Mapping& mapping) {
    const auto fail_there = [&](std::string_view why) {
        return fail_code(ExitCode::refused, "{}: memory {:#x}-{:#x} is of an io_uring, and {}",
                         name_of(holder), mapping.start, mapping.end, why);
    };
    const bool of_requests = mapping.offset == IORING_OFF_SQES;
    if (!of_requests && mapping.offset != IORING_OFF_SQ_RING && mapping.offset != IORING_OFF_CQ_RING)
        return fail_there("a part of it only is mapped, or what isn't a queue: this can't be saved");
    // Before Linux 5.16 all rings are of one inode, and what is in their memory nobody else can read.
    auto& rings = table.of<RingsFound>().all;
    const auto of_inode =
        std::ranges::count(rings, mapping.inode, [](const auto& ring) { return ring.second.inode; });
    if (of_inode > 1) return fail_there("this kernel doesn't tell of which of several");
    for (auto& [id, ring] : rings) {
        if (ring.inode != mapping.inode) continue;
        const std::size_t most =
            (of_requests ? requests_length(ring.parameters) : ring_length(ring.parameters)) + image_page - 1;
        if (mapping.end - mapping.start > most / image_page * image_page)
            return fail_there("is larger than such a ring has it (IORING_SETUP_SQE128 or CQE32)");
        ring.mapped_by.insert(holder.pid);
        return id;
    }
    return fail_there("nobody has a descriptor of it, which can't be saved");
}

// What is registered is looked for when all descriptions are known. What we have mapped goes before the
// programs go on: it keeps a ring alive that is closed.
Result<> capture_rings(Table& table) {
    for (const auto& [id, opened] : table.of<RingsFound>().all) {
        auto& saved = *table.objects[static_cast<std::size_t>(id)].get<schema::IoUring>();
        const Description& found = table.descriptions.at(id);
        if (!saved.buffers.empty() && opened.mapped_by.size() > 1)
            return fail_code(
                ExitCode::refused,
                "{}: is an io_uring with registered buffers that several processes have mapped: whose they "
                "are the kernel doesn't say",
                found.who());
        if (opened.hidden && std::ranges::any_of(table.objects, &schema::Object::is<schema::Eventfd>))
            return fail_code(
                ExitCode::refused,
                "{}: is an io_uring that only one thread may enter (IORING_SETUP_SINGLE_ISSUER), and the "
                "kernel doesn't say whether one of the group's eventfds is told of its completions: this "
                "can't be saved",
                found.who());
        for (const auto& [slot, name] : slots(found.info, "UserFiles:")) {
            auto file = registered_file(table, name);
            if (!file) return std::unexpected(std::move(file.error()).in(found.who()));
            saved.files.push_back({slot, *file});
        }
    }
    table.of<RingsFound>().all.clear();
    return {};
}

// There are 65,536 groups, and a question of each takes 20 ms.
Result<> ask_for_buffer_groups(Table& table) {
    for (const auto& [who, ring] : table.of<RingsFound>().asked_later)
        CHECK_OK(refuse_buffer_groups(ring.get(), who));
    table.of<RingsFound>().asked_later.clear();
    return {};
}

}  // namespace cairn::capture
