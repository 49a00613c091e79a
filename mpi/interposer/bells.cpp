#include "mpi/interposer/bells.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "mpi/interposer/session.h"

namespace cairn::mpi {

bool bells_there = false;
bool bell_awaited = false;

namespace {

// One to a cache line, so that a sender that looks at one doesn't disturb the others. Zeros: nobody of this
// host.
struct alignas(64) Bell {
    std::atomic<std::uint32_t> rung;
    std::atomic<std::uint32_t> asleep;
    std::atomic<std::uint32_t> here;
};

Bell* bells = nullptr;
Bell* own_bell = nullptr;
std::uint32_t last_rung = 0;
int world_size = 0;

// How often to look for messages before sleeping. Two processes that answer each other at once are slowed
// down by sleep, three that wait for their turn hold up the others by looking: more looks as long as sleeps
// end soon.
constexpr unsigned fewest_looks = 4, most_looks = 400;
constexpr long soon = 60'000;  // ns: what most_looks take, and being woken
unsigned looks = fewest_looks;

int owed_ring = -1;  // rank in MPI_COMM_WORLD that is being sent to, and hasn't been told

struct Members {
    MPI_Comm comm;
    std::vector<int> world;  // ranks in MPI_COMM_WORLD of those who get its messages
};
std::vector<Members> translations;

const Members* known_members(MPI_Comm comm) {
    const auto at = std::find_if(translations.begin(), translations.end(),
                                 [&](const Members& m) { return m.comm == comm; });
    return at != translations.end() ? &*at : nullptr;
}

int world_rank(const Members& members, int dest) {
    const auto at = static_cast<std::size_t>(dest);
    return dest >= 0 && at < members.world.size() ? members.world[at] : -1;
}

void ring_world(int rank) {
    if (rank < 0 || rank >= world_size) return;
    Bell& bell = bells[rank];
    if (bell.here.load(std::memory_order_relaxed) == 0) return;
    // Either it sees this, or we see it asleep: both are sequentially consistent.
    bell.rung.fetch_add(1);
    if (bell.asleep.load() != 0) ::syscall(SYS_futex, &bell.rung, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

long nanoseconds() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1'000'000'000L + now.tv_nsec;
}

Members members_of(MPI_Comm comm) {
    int between = 0, size = 0;
    ::PMPI_Comm_test_inter(comm, &between);
    MPI_Group theirs = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
    if (between != 0)
        ::PMPI_Comm_remote_group(comm, &theirs);
    else
        ::PMPI_Comm_group(comm, &theirs);
    ::PMPI_Comm_group(MPI_COMM_WORLD, &world);
    ::PMPI_Group_size(theirs, &size);
    std::vector<int> ranks(static_cast<std::size_t>(size));
    for (int i = 0; i < size; ++i) ranks[static_cast<std::size_t>(i)] = i;
    Members members{comm, std::vector<int>(ranks.size(), MPI_UNDEFINED)};
    ::PMPI_Group_translate_ranks(theirs, size, ranks.data(), world, members.world.data());
    ::PMPI_Group_free(&theirs);
    ::PMPI_Group_free(&world);
    return members;
}

// The memory belongs to no file that could be left behind: the others open it by way of the first one's
// process.
Bell* map_bells(int fd, std::size_t bytes) {
    struct stat file = {};
    void* at = MAP_FAILED;
    if (fd >= 0 && ::fstat(fd, &file) == 0 && static_cast<std::size_t>(file.st_size) == bytes)
        at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at != MAP_FAILED ? static_cast<Bell*>(at) : nullptr;
}

}  // namespace

bool crowded() {
    static const bool answer = [] {
        const char* ranks = std::getenv("MPI_LOCALNRANKS");  // Hydra
        if (ranks == nullptr) ranks = std::getenv("PMI_SIZE");
        cpu_set_t set;
        if (ranks == nullptr || ::sched_getaffinity(0, sizeof set, &set) != 0) return false;
        return std::atoi(ranks) > CPU_COUNT(&set);
    }();
    return answer;
}

void hang_bells(int rank, int size) {
    MPI_Comm host = MPI_COMM_NULL;
    if (::PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host) !=
        MPI_SUCCESS)
        return;
    int first = 0;
    ::PMPI_Comm_rank(host, &first);
    // The last is nobody's: its number says that it is this memory, and not what has the same name elsewhere.
    const std::size_t bytes = sizeof(Bell) * (static_cast<std::size_t>(size) + 1);
    struct {
        int pid, fd;
        std::uint32_t number;
    } where = {::getpid(), -1, 0};
    Bell* mapped = nullptr;
    if (first == 0) {
        where.fd = ::memfd_create("cairn mpi", MFD_CLOEXEC);
        if (where.fd >= 0 && ::ftruncate(where.fd, static_cast<off_t>(bytes)) == 0)
            mapped = map_bells(where.fd, bytes);
        if (::getrandom(&where.number, sizeof where.number, 0) != sizeof where.number || mapped == nullptr)
            where.number = 0;
        if (mapped != nullptr) mapped[size].rung.store(where.number);
    }
    ::PMPI_Bcast(&where, static_cast<int>(sizeof where), MPI_BYTE, 0, host);
    if (first != 0 && where.number != 0) {
        char path[64];
        std::snprintf(path, sizeof path, "/proc/%d/fd/%d", where.pid, where.fd);
        const int fd = ::open(path, O_RDWR | O_CLOEXEC);
        mapped = map_bells(fd, bytes);
        if (fd >= 0) ::close(fd);
        if (mapped != nullptr && mapped[size].rung.load() != where.number) mapped = nullptr;
    }
    ::PMPI_Barrier(host);
    if (first == 0 && where.fd >= 0) ::close(where.fd);
    ::PMPI_Comm_free(&host);
    if (mapped == nullptr) return;
    bells = mapped;
    world_size = size;
    own_bell = &bells[rank];
    own_bell->here.store(1);
    bells_there = true;
}

void await_bell(Fn fn) {
    switch (fn) {
        case Fn::Recv:
        case Fn::Sendrecv:
        case Fn::Sendrecv_replace:
        case Fn::Wait:
        case Fn::Waitall:
        case Fn::Waitany:
        case Fn::Waitsome:
        case Fn::Test:
        case Fn::Testall:
        case Fn::Testany:
        case Fn::Testsome:
        case Fn::Probe:
        case Fn::Iprobe:
        case Fn::Mprobe:
        case Fn::Improbe:
        case Fn::Mrecv:
            bell_awaited = own_bell != nullptr;
            return;
        default:
            bell_awaited = false;
    }
}

void owe_ring(int dest, MPI_Comm comm) {
    if (comm == MPI_COMM_WORLD) {
        owed_ring = dest;
        return;
    }
    // The first message of another communicator isn't owed: it may be none.
    const Members* members = known_members(comm);
    owed_ring = members != nullptr ? world_rank(*members, dest) : -1;
}

void owe_nothing() {
    owed_ring = -1;
}

void ring(int dest, MPI_Comm comm) {
    if (comm == MPI_COMM_WORLD) return ring_world(dest);
    if (known_members(comm) == nullptr) translations.push_back(members_of(comm));
    ring_world(world_rank(*known_members(comm), dest));
}

void bells_forget(MPI_Comm comm) {
    std::erase_if(translations, [&](const Members& m) { return m.comm == comm; });
}

bool sleep_till_bell() {
    if (owed_ring >= 0) {
        // A large message is on its way only when its receiver has answered.
        ring_world(owed_ring);
        owed_ring = -1;
    }
    if (!bell_awaited) return false;
    // Rung since the last look: what it was rung for may have come behind that look, so look again first.
    if (const std::uint32_t now = own_bell->rung.load(); now != last_rung) {
        last_rung = now;
        idle = 0;
        return true;
    }
    if (++idle < looks) return true;
    // What comes without a bell is late by as long as it has been waited for, a millisecond at most.
    const unsigned naps = std::min(idle - looks, 5U);
    const timespec most{.tv_sec = 0, .tv_nsec = 31'250L << naps};
    const long begin = nanoseconds();
    const int kept_errno = errno;
    own_bell->asleep.store(1);
    ::syscall(SYS_futex, &own_bell->rung, FUTEX_WAIT, last_rung, &most, nullptr, 0);
    own_bell->asleep.store(0);
    errno = kept_errno;
    if (naps > 0) return true;
    if (own_bell->rung.load() != last_rung && nanoseconds() - begin < soon)
        looks = std::min(looks * 2, most_looks);
    else
        looks = std::max(looks / 2, fewest_looks);
    idle = looks;
    return true;
}

}  // namespace cairn::mpi
