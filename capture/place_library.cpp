#include "capture/place_library.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <optional>

#include "capture/collect/filters.h"
#include "capture/seize.h"
#include "common/agent.h"
#include "common/cpu_level.h"
#include "common/fd.h"
#include "common/linker_room.h"
#include "common/message_descriptors.h"
#include "common/proc.h"
#include "common/ptrace/remote_call.h"
#include "common/ptrace/thread.h"
#include "common/region.h"

namespace cairn::capture {
namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t no_file = ~std::uint64_t{0};

std::uint64_t page_begin(std::uint64_t at) {
    return at / page * page;
}
std::uint64_t page_end(std::uint64_t at) {
    return page_begin(at + page - 1);
}

// A stopped thread in which system calls are made. It has its registers and its mask again when this goes.
class Visit {
  public:
    [[nodiscard]] static Result<Visit> begin(pid_t tid) {
        const auto lines = TRY(proc::maps(tid, false));
        const auto vdso = std::ranges::find(lines, std::string("[vdso]"), &proc::MapLine::name);
        if (vdso == lines.end())
            return fail_code(
                ExitCode::refused,
                "has no vdso (the kernel's vdso=0, or it has unmapped it): nothing can be placed in it");
        const auto at = TRY(ptrace::find_syscall(tid, vdso->start, vdso->end - vdso->start));
        const auto registers = TRY(ptrace::registers(tid));
        const auto mask = TRY(ptrace::mask(tid));
        CHECK_OK(ptrace::set_mask(tid, ~std::uint64_t{0}));
        return Visit(tid, at, registers, mask);
    }
    Visit(Visit&& other) noexcept
        : tid_(std::exchange(other.tid_, 0)),
          at_(other.at_),
          registers_(other.registers_),
          mask_(other.mask_) {}
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    Visit& operator=(Visit&&) = delete;
    ~Visit() { (void)end(); }

    [[nodiscard]] Result<std::uint64_t> call(std::string_view name, long number,
                                             std::initializer_list<std::uint64_t> arguments) const {
        const auto result =
            TRY(ptrace::remote_call(tid_, at_, number, {arguments.begin(), arguments.size()}));
        constexpr std::int64_t most_errors = 4095;
        if (result < 0 && result >= -most_errors) {
            errno = static_cast<int>(-result);
            return fail_errno("{} in the process", name);
        }
        return static_cast<std::uint64_t>(result);
    }
    [[nodiscard]] Result<ProgramAddress> map(std::uint64_t at, std::uint64_t length, int protection,
                                             int flags, std::uint64_t fd, std::uint64_t offset) const {
        return ProgramAddress(TRY(call("mmap", SYS_mmap,
                                       {at, length, static_cast<std::uint64_t>(protection),
                                        static_cast<std::uint64_t>(flags), fd, offset})));
    }

    // Behind the last call the thread stands on its way out of it, where the kernel doesn't look whether the
    // call that we found it in is to be made again: it is brought to where the kernel does.
    [[nodiscard]] Result<> end() {
        const pid_t tid = std::exchange(tid_, 0);
        if (tid == 0) return {};
        CHECK_OK(ptrace::interrupt(tid));
        for (int signal = 0;;) {
            CHECK_OK(ptrace::resume(tid, std::exchange(signal, 0)));
            int status = 0;
            if (::waitpid(tid, &status, __WALL) != tid) return fail_errno("waiting for {}", tid);
            if (!WIFSTOPPED(status)) return fail("process {} was killed while it was being saved", tid);
            if (status >> 16 == ptrace::event_stop) break;
            if (WSTOPSIG(status) == SIGSTOP) signal = SIGSTOP;
            CHECK_OK(ptrace::interrupt(tid));
        }
        CHECK_OK(ptrace::set_mask(tid, mask_));
        CHECK_OK(ptrace::set_registers(tid, registers_));
        return ptrace::heed_filters(tid, seize_options);
    }

    [[nodiscard]] pid_t tid() const { return tid_; }

  private:
    Visit(pid_t tid, ProgramAddress at, const ptrace::Registers& registers, std::uint64_t mask)
        : tid_(tid), at_(at), registers_(registers), mask_(mask) {}

    pid_t tid_;
    ProgramAddress at_;
    ptrace::Registers registers_;
    std::uint64_t mask_;
};

// The process's own end of a pair of sockets.
Result<Fd> descriptor_of(pid_t tid, int number) {
    constexpr unsigned of_thread = O_EXCL;  // PIDFD_THREAD, Linux 6.9
    Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, tid, of_thread)));
    if (!pidfd) {
        const auto status = TRY(proc::status(tid, tid));
        pidfd = Fd(static_cast<int>(::syscall(SYS_pidfd_open, std::atoi(status["Tgid"].c_str()), 0U)));
    }
    Fd taken(static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd.get(), number, 0U)));
    if (!taken) return fail_errno("pidfd_getfd");
    return taken;
}

// What the process lays out in its page of scratch memory to be handed a descriptor.
struct Handing {
    int pair[2] = {-1, -1};
    msghdr message = {};
    iovec vector = {};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
    char byte = 0;
};
static_assert(sizeof(Handing) <= page);

Result<std::uint64_t> receive_inside(const Visit& visit, ProgramAddress scratch, Handing handing,
                                     const Fd& file) {
    const auto end = TRY(descriptor_of(visit.tid(), handing.pair[1]));
    const int number = file.get();
    if (send_with(end.get(), "x", {&number, 1}, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        return fail_errno("sendmsg");
    const auto at = [&](std::size_t offset) { return reinterpret_cast<void*>((scratch + offset).value()); };
    handing.vector = {at(offsetof(Handing, byte)), 1};
    handing.message.msg_iov = static_cast<iovec*>(at(offsetof(Handing, vector)));
    handing.message.msg_iovlen = 1;
    handing.message.msg_control = at(offsetof(Handing, control));
    handing.message.msg_controllen = handing.control.size();
    CHECK_OK(ptrace::write_object(visit.tid(), scratch, handing));
    CHECK_OK(visit.call("recvmsg", SYS_recvmsg,
                        {static_cast<std::uint64_t>(handing.pair[0]),
                         (scratch + offsetof(Handing, message)).value(), MSG_DONTWAIT | MSG_CMSG_CLOEXEC}));
    handing = TRY(ptrace::read_object<Handing>(visit.tid(), scratch));
    cmsghdr head{};
    std::memcpy(&head, handing.control.data(), sizeof head);
    if (head.cmsg_level != SOL_SOCKET || head.cmsg_type != SCM_RIGHTS ||
        head.cmsg_len != CMSG_LEN(sizeof(int)))
        return fail("the process may not have more descriptors");
    int received = -1;
    std::memcpy(&received, &handing.control[CMSG_LEN(0)], sizeof received);
    return static_cast<std::uint64_t>(received);
}

// What is open may be used by who may not open it (Landlock), and by who doesn't see it from his root folder.
Result<std::uint64_t> hand_in(const Visit& visit, ProgramAddress scratch, const Fd& file) {
    CHECK_OK(
        visit.call("socketpair", SYS_socketpair, {AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, scratch.value()}));
    Handing handing;
    const auto pair = TRY(ptrace::read_object<std::array<int, 2>>(visit.tid(), scratch));
    std::ranges::copy(pair, &handing.pair[0]);
    auto received = receive_inside(visit, scratch, handing, file);
    for (const int each : pair) CHECK_OK(visit.call("close", SYS_close, {static_cast<std::uint64_t>(each)}));
    return received;
}

// By the process itself, by its own right and from its own root, if that can be; `ours`: the same file.
Result<std::uint64_t> open_inside(const Visit& visit, ProgramAddress scratch, const std::string& path,
                                  int flags, const Fd& ours) {
    CHECK_OK(
        ptrace::write_memory(visit.tid(), scratch, std::as_bytes(std::span(path.c_str(), path.size() + 1))));
    auto opened = visit.call("open " + path, SYS_openat,
                             {static_cast<std::uint64_t>(std::int64_t{AT_FDCWD}), scratch.value(),
                              static_cast<std::uint64_t>(flags | O_CLOEXEC), 0});
    if (opened || !filters_let_hand_in(visit.tid())) return opened;
    auto handed = hand_in(visit, scratch, ours);
    return handed ? handed : opened;
}

// As the dynamic loader would, but nothing is relocated (see the note in hijack/agent/agent.cpp).
Result<ProgramAddress> map_library(const Visit& visit, const OwnLibrary& library, std::uint64_t fd) {
    std::uint64_t length = 0;
    for (const auto& segment : library.segments)
        length = std::max(length, page_end(segment.address + segment.in_memory));
    const auto base = TRY(visit.map(0, length, PROT_NONE, MAP_PRIVATE, fd, 0));
    for (const auto& segment : library.segments) {
        const auto begin = page_begin(segment.address), file_end = segment.address + segment.in_file;
        const auto end = page_end(segment.address + segment.in_memory);
        CHECK_OK(visit.map((base + begin).value(), page_end(file_end) - begin, segment.protection,
                           MAP_PRIVATE | MAP_FIXED, fd, page_begin(segment.offset)));
        if (segment.in_memory == segment.in_file) continue;
        const std::vector<std::byte> zeros(page_end(file_end) - file_end);
        CHECK_OK(ptrace::write_memory(visit.tid(), base + file_end, zeros));
        if (end > page_end(file_end))
            CHECK_OK(visit.map((base + page_end(file_end)).value(), end - page_end(file_end),
                               segment.protection, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, no_file, 0));
    }
    return base;
}

Result<> open_door(pid_t tid, const OwnLibrary& library, ProgramAddress base) {
    const auto door = base + library.door;
    const std::array<std::uint32_t, 2> version = {agent_version, sizeof(Door)};
    const std::array<std::uint64_t, 2> entries = {(base + library.entry).value(),
                                                  (base + library.finish).value()};
    const std::array<std::uint64_t, 2> of_tracing = {(base + library.park).value(),
                                                     (base + library.take).value()};
    CHECK_OK(ptrace::write_object(tid, door + offsetof(Door, version), version));
    CHECK_OK(ptrace::write_object(tid, door + offsetof(Door, entry), entries));
    CHECK_OK(ptrace::write_object(tid, door + offsetof(Door, park), of_tracing));
    CHECK_OK(ptrace::write_object(tid, door + offsetof(Door, placed), std::uint32_t{1}));
    // What the library would have found out: nothing has kept this program to a level of CPU, no dynamic
    // linker needs room on its stacks, and it may have set policies of memory.
    CHECK_OK(ptrace::write_object(tid, door + offsetof(Door, cpu_level), CpuLevel::host));
    CHECK_OK(
        ptrace::write_object(tid, door + offsetof(Door, linker_room), std::uint32_t{room_for_everything}));
    CHECK_OK(ptrace::write_object(tid, door + offsetof(Door, memory_policies), std::uint32_t{1}));
    return ptrace::write_object(tid, door + offsetof(Door, magic), door_magic);
}
static_assert(offsetof(Door, size) == offsetof(Door, version) + sizeof(std::uint32_t));
static_assert(offsetof(Door, finish) == offsetof(Door, entry) + sizeof(std::uint64_t));
static_assert(offsetof(Door, take) == offsetof(Door, park) + sizeof(std::uint64_t));

Result<Placed> place(const Visit& visit, const OwnLibrary& library, const SessionRegion& region) {
    constexpr int read_write = PROT_READ | PROT_WRITE;
    const auto scratch = TRY(visit.map(0, page, read_write, MAP_PRIVATE | MAP_ANONYMOUS, no_file, 0));
    Placed placed;
    const auto& name = region.region->path;  // which members may write to
    auto fd =
        TRY(open_inside(visit, scratch, {&name[0], ::strnlen(&name[0], sizeof name)}, O_RDWR, region.file));
    placed.region_at = TRY(visit.map(0, sizeof(Region), read_write, MAP_SHARED, fd, 0));
    CHECK_OK(visit.call("close", SYS_close, {fd}));
    const Fd ours(::open(library.path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!ours) return fail_errno("open {}", library.path);
    fd = TRY(open_inside(visit, scratch, library.path, O_RDONLY, ours));
    const auto base = TRY(map_library(visit, library, fd));
    CHECK_OK(visit.call("close", SYS_close, {fd}));
    CHECK_OK(open_door(visit.tid(), library, base));
    placed.door = base + library.door;
    CHECK_OK(visit.call("munmap", SYS_munmap, {scratch.value(), page}));
    return placed;
}

}  // namespace

Result<Placed> place_library(pid_t tid, const OwnLibrary& library, const SessionRegion& region) {
    static_assert(sizeof(Region::path) <= page);
    if (library.path.size() >= page) return fail("{}: the path is too long", library.path);
    CHECK_OK(let_filters_place(tid));
    auto visit = TRY(Visit::begin(tid));
    auto placed = place(visit, library, region);
    CHECK_OK(visit.end());
    return placed;
}

}  // namespace cairn::capture
