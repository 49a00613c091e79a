// Sending signals to virtual ids, and seeing who sent one.
//
// A handler that takes a siginfo is called by way of ours, which puts the sender's virtual id into it. That
// is so from the beginning, not only after a restart: the handler that the kernel has is then right in both
// cases and a restart has nothing to change. The program never sees ours: sigaction and signal give its own
// back.
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "hijack/next.h"
#include "hijack/raw.h"
#include "hijack/siginfo.h"
#include "hijack/timing.h"

using namespace cairn::hijack;

namespace {

using SimpleHandler = void (*)(int);
using InfoHandler = void (*)(int, siginfo_t*, void*);

constexpr int signal_count = 65;
constinit std::atomic<InfoHandler> program_handlers[signal_count] = {};

bool is_signal(int signal) {
    return signal > 0 && signal < signal_count;
}

void with_virtual_sender(int signal, siginfo_t* info, void* context) {
    translate_sender(info);
    program_handlers[signal].load(std::memory_order_acquire)(signal, info, context);
}

// By default at least.
bool stops(int signal) {
    return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

// The two kinds of handler share their place in struct sigaction.
SimpleHandler simple(InfoHandler handler) {
    return reinterpret_cast<SimpleHandler>(reinterpret_cast<void*>(handler));
}

bool is_ours(SimpleHandler handler) {
    return handler == simple(with_virtual_sender);
}

// What signal() and its kin say was the handler.
SimpleHandler programs_own(int signal, SimpleHandler handler) {
    if (!is_signal(signal) || !is_ours(handler)) return handler;
    return simple(program_handlers[signal].load(std::memory_order_acquire));
}

}  // namespace

CAIRN_EXPORT int sigaction(int signal, const struct sigaction* wanted, struct sigaction* old) noexcept {
    const auto real = next<"sigaction">(&::sigaction);
    if (region() == nullptr || !is_signal(signal)) return real(signal, wanted, old);
    std::atomic<InfoHandler>& handler = program_handlers[signal];
    const InfoHandler before = handler.load(std::memory_order_acquire);
    struct sigaction changed = {};
    const bool takes_info = wanted != nullptr && (wanted->sa_flags & SA_SIGINFO) != 0 &&
                            wanted->sa_handler != SIG_DFL && wanted->sa_handler != SIG_IGN;
    if (takes_info) {
        changed = *wanted;
        // First, so that ours never runs without one.
        if (!is_ours(wanted->sa_handler)) handler.store(wanted->sa_sigaction, std::memory_order_release);
        changed.sa_sigaction = with_virtual_sender;
    }
    const int result = real(signal, takes_info ? &changed : wanted, old);
    if (result != 0) {
        if (takes_info) handler.store(before, std::memory_order_release);
    } else if (old != nullptr && is_ours(old->sa_handler)) {
        old->sa_sigaction = before;
    }
    return result;
}

CAIRN_EXPORT int __sigaction(int signal, const struct sigaction* wanted, struct sigaction* old) noexcept {
    return sigaction(signal, wanted, old);
}

CAIRN_EXPORT SimpleHandler signal(int number, SimpleHandler handler) noexcept {
    return programs_own(number, next<"signal">(&::signal)(number, handler));
}

CAIRN_EXPORT SimpleHandler ssignal(int number, SimpleHandler handler) noexcept {
    return signal(number, handler);
}

CAIRN_EXPORT SimpleHandler bsd_signal(int number, SimpleHandler handler) noexcept {
    return signal(number, handler);
}

CAIRN_EXPORT SimpleHandler sysv_signal(int number, SimpleHandler handler) noexcept {
    return programs_own(number, next<"sysv_signal">(&::sysv_signal)(number, handler));
}

CAIRN_EXPORT SimpleHandler __sysv_signal(int number, SimpleHandler handler) noexcept {
    return sysv_signal(number, handler);
}

CAIRN_EXPORT SimpleHandler sigset(int number, SimpleHandler handler) noexcept {
    return programs_own(number,
                        next<"sigset", SimpleHandler(int, SimpleHandler) noexcept>(nullptr)(number, handler));
}

CAIRN_EXPORT int kill(pid_t pid, int signal) noexcept {
    const pid_t target = real_pid_or_group(pid);
    if (stops(signal)) await_births(target > 0 ? cairn::KernelId(target) : cairn::KernelId());
    return next<"kill">(&::kill)(target, signal);
}

CAIRN_EXPORT int killpg(pid_t group, int signal) noexcept {
    if (stops(signal)) await_births({});
    return next<"killpg">(&::killpg)(real_id(group), signal);
}

CAIRN_EXPORT int tgkill(pid_t process, pid_t thread, int signal) noexcept {
    const pid_t target = real_id(process);
    if (stops(signal)) await_births(cairn::KernelId(target));
    return next<"tgkill">(&::tgkill)(target, real_id(thread), signal);
}

CAIRN_EXPORT int sigqueue(pid_t pid, int signal, const union sigval value) noexcept {
    return next<"sigqueue">(&::sigqueue)(real_id(pid), signal, value);
}

CAIRN_EXPORT int sigtimedwait(const sigset_t* set, siginfo_t* info, const struct timespec* timeout) {
    const auto real = next<"sigtimedwait">(&::sigtimedwait);
    if (region() == nullptr) return real(set, info, timeout);
    const Noted note(SYS_rt_sigtimedwait, Noted::nanoseconds(timeout));
    const int result = real(set, info, timeout);
    if (result > 0) translate_sender(info);
    return result;
}

CAIRN_EXPORT int sigwaitinfo(const sigset_t* set, siginfo_t* info) {
    const int result = next<"sigwaitinfo">(&::sigwaitinfo)(set, info);
    if (result > 0) translate_sender(info);
    return result;
}
