// libcairn-part.so: what a program is linked with that takes part in its checkpoints (cairn.h). The words
// that it shares with a capture are described in common/part_words.h.
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/part_words.h"
#include "common/region_ops.h"
#include "part/cairn.h"

#define CAIRN_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace cairn;

constexpr int most_hooks = 32;
// While a checkpoint is under way nobody can wake us from a restart but the clock.
constexpr long while_waiting_ns = 20'000'000, at_rest_ns = 10'000'000'000;

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;         // of what is set up
pthread_mutex_t asking_lock = PTHREAD_MUTEX_INITIALIZER;  // one cairn_checkpoint() at a time
Region* volatile region = nullptr;
std::atomic<int> looks_left = 200;
std::atomic<PartWords*> words = nullptr;
struct cairn_callbacks hooks[most_hooks];
std::atomic<int> hook_count = 0;
bool thread_runs = false;
__thread int own_sections = 0;
__thread bool in_hook = false;

// Where libcairn.so has mapped the session's region. A restart maps the one of its session at the same place.
// The constructors of plugins run before libcairn.so's (the dynamic linker begins with what was loaded last),
// so that it may come a little later.
void look_for_region() {
    if (region != nullptr || std::getenv(env_region) == nullptr || looks_left.fetch_sub(1) <= 0) return;
    FILE* maps = std::fopen("/proc/self/maps", "re");
    if (maps == nullptr) return;
    char line[PATH_MAX + 200];
    bool library = false;
    unsigned long found = 0;
    while (std::fgets(line, sizeof line, maps) != nullptr) {
        unsigned long begin = 0, end = 0;
        char flags[8] = "";
        if (std::sscanf(line, "%lx-%lx %7s", &begin, &end, flags) != 3) continue;
        library = library || std::strstr(line, "/libcairn.so") != nullptr;
        const char* name = std::strrchr(line, '/');
        if (flags[1] == 'w' && flags[3] == 's' && name != nullptr &&
            std::strncmp(name, "/region", sizeof "/region" - 1) == 0 && end - begin >= sizeof(Region))
            found = begin;
    }
    std::fclose(maps);
    auto* at = reinterpret_cast<Region*>(found);
    if (library && at != nullptr && at->magic == region_magic && at->version == region_version) region = at;
}

// The kernel's, past libcairn.so, which would say what the program calls itself.
pid_t kernel_pid() {
    long result = SYS_getpid;
    asm volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
    return static_cast<pid_t>(result);
}

// By the kernel's pid, never remembered: a restart may have given the process another slot.
Slot* own_slot() {
    look_for_region();
    if (region == nullptr) return nullptr;
    const auto index = find_slot(*region, KernelId(kernel_pid()));
    return index == no_slot ? nullptr : &region->slots[index];
}

void wait_for_change(Slot& slot, std::uint32_t flags, long nanoseconds) {
    const timespec time{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
    ::syscall(SYS_futex, &slot.flags, FUTEX_WAIT, flags, &time, nullptr, 0);
}

void announce(Slot& slot) {
    if ((slot.flags.load() & slot_takes_part) == 0) slot.flags.fetch_or(slot_takes_part);
}

// The child of a fork has the words, and its parent's sections if it was forked in one, but no thread.
void in_child() {
    thread_runs = false;
    hook_count = 0;
    // Another thread of the parent's may have had them.
    lock = PTHREAD_MUTEX_INITIALIZER;
    asking_lock = PTHREAD_MUTEX_INITIALIZER;
    auto* own = words.load();
    if (own == nullptr) return;
    own->hooks = 0;
    own->stage = PartStage::idle;
    if (Slot* slot = own_slot(); slot != nullptr) announce(*slot);
}

PartWords* make_words() {
    if (auto* known = words.load(); known != nullptr) return known;
    pthread_mutex_lock(&lock);
    auto* made = words.load();
    if (made == nullptr) {
        const int file = static_cast<int>(::syscall(SYS_memfd_create, part_mapping, 1U /* MFD_CLOEXEC */));
        void* at = MAP_FAILED;
        if (file >= 0 && ::ftruncate(file, 4096) == 0)
            at = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
        if (file >= 0) ::close(file);
        if (at != MAP_FAILED) {
            made = static_cast<PartWords*>(at);
            made->magic = part_magic;
            pthread_atfork(nullptr, nullptr, in_child);
            words = made;
        }
    }
    pthread_mutex_unlock(&lock);
    return made;
}

void run_after(int count, int what) {
    in_hook = true;
    for (int i = count - 1; i >= 0; --i) {
        if (what == CAIRN_RESTARTED && hooks[i].restarted != nullptr) hooks[i].restarted(hooks[i].data);
        if (what != CAIRN_RESTARTED && hooks[i].after != nullptr) hooks[i].after(what, hooks[i].data);
    }
    in_hook = false;
}

// How a checkpoint that this process was ready for has ended here.
int wait_for_end(PartWords& own, std::uint64_t number, std::uint64_t mark) {
    for (;;) {
        if (own.mark.load() != mark) return CAIRN_RESTARTED;
        Slot* slot = own_slot();
        const std::uint32_t flags = slot == nullptr ? 0 : slot->flags.load();
        if (own.asked.load() != number) return CAIRN_FAILED;
        const auto order = own.order.load();
        if (order == PartOrder::over) return CAIRN_ORIGINAL;
        // A capture that is killed gives no order any more, and its coordinator takes the number back.
        if (order == PartOrder::given_up || region->capture.load() != number)
            return own.mark.load() != mark ? CAIRN_RESTARTED : CAIRN_FAILED;
        if (slot != nullptr)
            wait_for_change(*slot, flags, while_waiting_ns);
        else
            ::usleep(while_waiting_ns / 1000);
    }
}

void take_part(PartWords& own, std::uint64_t number) {
    own.stage = PartStage::busy;
    own.reason[0] = '\0';
    const std::uint64_t mark = own.mark.load();
    const int count = hook_count.load();
    int called = 0;
    bool refused = false;
    in_hook = true;
    for (; called < count && !refused; ++called)
        refused = hooks[called].before != nullptr && hooks[called].before(hooks[called].data) != 0;
    in_hook = false;
    own.done = number;
    own.stage = refused ? PartStage::refused : PartStage::ready;
    const int what = wait_for_end(own, number, mark);
    // The slot may be another one by now, and says nothing of us yet.
    if (Slot* slot = own_slot(); slot != nullptr) announce(*slot);
    run_after(called, what);
    own.stage = PartStage::idle;
}

void* answer_orders(void*) {
    ::prctl(PR_SET_NAME, "cairn-part");
    PartWords& own = *words.load();
    for (;;) {
        Slot* slot = own_slot();
        if (slot == nullptr) {  // not yet, or no member any more
            ::usleep(looks_left.load() > 0 ? 5'000 : 1'000'000);
            continue;
        }
        announce(*slot);
        const std::uint32_t flags = slot->flags.load();
        const std::uint64_t number = own.asked.load();
        if (own.order.load() == PartOrder::prepare && number != own.done.load() &&
            region->capture.load() == number)
            take_part(own, number);
        else
            wait_for_change(*slot, flags, at_rest_ns);
    }
    return nullptr;
}

// All signals are the program's.
int start_thread() {
    sigset_t all, before;
    ::sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    const int problem = pthread_create(&thread, &attributes, answer_orders, nullptr);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return problem;
}

long now_s() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

// Who has asked for the checkpoint goes on when the hooks have been called: what they put in order is there.
// A hook that waits for something of the caller's must not make both wait for ever.
void await_hooks(PartWords& own) {
    constexpr int longest_ms = 30'000;
    for (int i = 0; i < longest_ms && own.stage.load() != PartStage::idle; ++i) ::usleep(1000);
}

// Returns what cairn_checkpoint() says.
int ask(PartWords& own, int seconds) {
    constexpr std::uint32_t answer_bits = 0xffU << slot_answer_shift;
    const std::uint64_t mark = own.mark.load();
    const long until = now_s() + seconds;
    std::int32_t asked_of = 0;  // the coordinator's generation
    for (;;) {
        if (own.mark.load() != mark) return CAIRN_RESTARTED;
        Slot* slot = own_slot();
        if (slot == nullptr) return CAIRN_DISABLED;
        announce(*slot);
        // The next coordinator of a session doesn't know what its predecessor was asked.
        const std::int32_t generation = region->coordinator_generation.load();
        if (generation != asked_of) {
            slot->flags.fetch_and(~(slot_answered | answer_bits));
            slot->flags.fetch_or(slot_wants_checkpoint);
            announce_change(*region);
            asked_of = generation;
        }
        const std::uint32_t flags = slot->flags.load();
        if ((flags & slot_answered) != 0) {
            slot->flags.fetch_and(~(slot_answered | answer_bits));
            return -static_cast<int>((flags & answer_bits) >> slot_answer_shift);
        }
        if (seconds > 0 && now_s() >= until) {
            slot->flags.fetch_and(~slot_wants_checkpoint);
            return CAIRN_TIMED_OUT;
        }
        wait_for_change(*slot, flags, while_waiting_ns);
    }
}

}  // namespace

CAIRN_EXPORT int cairn_enabled(void) {
    return own_slot() != nullptr ? 1 : 0;
}

CAIRN_EXPORT int cairn_forbid(void) {
    look_for_region();
    if (region == nullptr) return 0;
    PartWords* own = words.load();
    if (own == nullptr) {
        own = make_words();
        if (own == nullptr) return CAIRN_NO_MEMORY;
        if (Slot* slot = own_slot(); slot != nullptr) announce(*slot);
    }
    ++own_sections;
    for (;;) {
        // First this, then the look: a capture closes first, and then counts.
        own->forbidden.fetch_add(1);
        const std::uint64_t closed = own->closed.load();
        if (closed == 0 || own_sections > 1 || in_hook || region->capture.load() != closed) return 0;
        own->forbidden.fetch_sub(1);
        ::usleep(1000);
    }
}

CAIRN_EXPORT int cairn_allow(void) {
    if (region == nullptr) return 0;
    PartWords* own = words.load();
    if (own == nullptr || own->forbidden.load() == 0) return CAIRN_FAILED;
    if (own_sections > 0) --own_sections;
    own->forbidden.fetch_sub(1);
    return 0;
}

CAIRN_EXPORT int cairn_checkpoint(int seconds) {
    if (own_slot() == nullptr) return CAIRN_DISABLED;
    if (in_hook || own_sections > 0) return CAIRN_BUSY;
    PartWords* own = make_words();
    if (own == nullptr) return CAIRN_NO_MEMORY;
    pthread_mutex_lock(&asking_lock);
    const int result = ask(*own, seconds);
    if (result >= 0) await_hooks(*own);
    pthread_mutex_unlock(&asking_lock);
    return result;
}

CAIRN_EXPORT int cairn_hooks(const struct cairn_callbacks* wanted) {
    if (std::getenv(env_region) == nullptr) return 0;
    PartWords* own = make_words();
    if (own == nullptr) return CAIRN_NO_MEMORY;
    pthread_mutex_lock(&lock);
    int result = 0;
    if (hook_count.load() == most_hooks) {
        result = CAIRN_NO_MEMORY;
    } else {
        hooks[hook_count.load()] = *wanted;
        hook_count.fetch_add(1);
        if (!thread_runs && start_thread() != 0) {
            hook_count.fetch_sub(1);
            result = CAIRN_NO_MEMORY;
        } else {
            thread_runs = true;
            own->hooks = 1;
            if (Slot* slot = own_slot(); slot != nullptr) announce(*slot);
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CAIRN_EXPORT void cairn_refuse(const char* why) {
    PartWords* own = words.load();
    if (own == nullptr || why == nullptr) return;
    std::strncpy(own->reason, why, sizeof own->reason - 1);
    own->reason[sizeof own->reason - 1] = '\0';
}
