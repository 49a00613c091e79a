#include "capture/participants.h"

#include <unistd.h>

#include <array>
#include <cstddef>
#include <utility>

#include "common/part_words.h"
#include "common/printable.h"
#include "common/proc.h"
#include "common/ptrace/thread.h"
#include "common/region_ops.h"

namespace cairn::capture {
namespace {

// All processes together: for what is written in a section, or by hooks that flush something.
constexpr auto part_patience = std::chrono::seconds(30);
constexpr useconds_t between_looks_us = 1000;

// PartWords are atomics, which can't be copied as a whole.
template <class T>
Result<T> read_word(pid_t pid, ProgramAddress words, std::size_t offset) {
    return ptrace::read_object<T>(pid, words + offset);
}

template <class T>
bool write_word(pid_t pid, ProgramAddress words, std::size_t offset, const T& value) {
    return ptrace::write_object(pid, words + offset, value).has_value();
}

Slot* slot_of(const SessionRegions& regions, pid_t pid) {
    const SessionRegion* region = regions.of(pid);
    const auto index = region == nullptr ? no_slot : find_slot(*region->region, KernelId(pid));
    return index == no_slot ? nullptr : &region->region->slots[index];
}

bool says_that_it_takes_part(const SessionRegions& regions, pid_t pid) {
    const Slot* slot = slot_of(regions, pid);
    return slot != nullptr && (slot->flags.load() & slot_takes_part) != 0;
}

// In how many sections it is. Whoever has executed another program since he was found has no words any more.
std::uint32_t sections_of(pid_t pid, ProgramAddress words) {
    const auto magic = read_word<std::uint64_t>(pid, words, offsetof(PartWords, magic));
    if (!magic || *magic != part_magic) return 0;
    return read_word<std::uint32_t>(pid, words, offsetof(PartWords, forbidden)).value_or(0);
}

// The child of a fork has its parent's words, and no thread that would answer.
bool has_hook_thread(pid_t pid) {
    for (const pid_t tid : proc::tasks(pid).value_or(std::vector<pid_t>{}))
        if (const auto name = proc::read_file(fmt::format("/proc/{}/task/{}/comm", pid, tid));
            name && *name == "cairn-part\n")
            return true;
    return false;
}

}  // namespace

void Participants::find(pid_t pid) {
    if (all_.contains(pid)) return;
    const auto lines = proc::maps(pid, false);
    if (!lines) return;
    for (const auto& line : *lines) {
        if (line.name != fmt::format("/memfd:{}", part_mapping)) continue;
        const auto magic = read_word<std::uint64_t>(pid, line.start, offsetof(PartWords, magic));
        if (!magic || *magic != part_magic) continue;
        One one{.words = line.start};
        const auto hooks = read_word<std::uint32_t>(pid, line.start, offsetof(PartWords, hooks));
        one.hooks = hooks && *hooks != 0 && has_hook_thread(pid);
        one.mark_before = read_word<std::uint64_t>(pid, line.start, offsetof(PartWords, mark)).value_or(0);
        all_.emplace(pid, one);
        return;
    }
}

Result<> Participants::prepare(const std::vector<pid_t>& members) {
    for (const pid_t pid : members)
        if (says_that_it_takes_part(*regions_, pid)) find(pid);
    if (all_.empty()) return {};
    reporter_->phase("hooks");
    under_way_ = true;
    for (auto& [pid, one] : all_) close(pid, one, capture_);
    CHECK_OK(await_sections());
    CHECK_OK(await_hooks());
    reporter_->restart_deadline();
    return {};
}

Result<> Participants::await_sections() {
    const auto until = Clock::now() + part_patience;
    for (auto each = all_.begin(); each != all_.end();) {
        if (sections_of(each->first, each->second.words) == 0) {
            ++each;
            continue;
        }
        if (reporter_->coordinator_gone()) return fail("the coordinator has gone");
        if (Clock::now() > until)
            return fail_code(ExitCode::refused,
                             "{} forbids checkpoints (cairn_forbid), and has done so for {} s: try again",
                             proc::label(each->first), part_patience.count());
        ::usleep(between_looks_us);
        each = all_.begin();  // somebody else may have begun one
    }
    return {};
}

void Participants::wake(pid_t pid) const {
    Slot* slot = slot_of(*regions_, pid);
    if (slot == nullptr) return;
    constexpr long futex_wake = 1, all = 1 << 30;
    slot->flags.fetch_xor(slot_part_turn);
    region_futex(slot->flags, futex_wake, all);
}

void Participants::close(pid_t pid, const One& one, std::uint64_t number) const {
    (void)write_word(pid, one.words, offsetof(PartWords, closed), number);
}

void Participants::order(pid_t pid, const One& one, std::uint32_t what) const {
    (void)(write_word(pid, one.words, offsetof(PartWords, asked), capture_) &&
           write_word(pid, one.words, offsetof(PartWords, order), what));
    wake(pid);
}

Result<> Participants::await_hooks() {
    for (auto& [pid, one] : all_)
        if (one.hooks) {
            one.asked = true;
            order(pid, one, static_cast<std::uint32_t>(PartOrder::prepare));
        }
    const auto until = Clock::now() + part_patience;
    for (auto& [pid, one] : all_) {
        while (one.asked) {
            const auto done = read_word<std::uint64_t>(pid, one.words, offsetof(PartWords, done));
            const auto stage = read_word<std::uint32_t>(pid, one.words, offsetof(PartWords, stage));
            if (!done || !stage) break;  // it has ended, or executed another program
            if (*done == capture_ && *stage == static_cast<std::uint32_t>(PartStage::ready)) break;
            if (*done == capture_ && *stage == static_cast<std::uint32_t>(PartStage::refused)) {
                using Reason = std::array<char, sizeof(PartWords::reason)>;
                auto reason = read_word<Reason>(pid, one.words, offsetof(PartWords, reason));
                if (reason) reason->back() = '\0';
                return fail_code(ExitCode::refused, "{} refuses the checkpoint (cairn_hooks){}{}",
                                 proc::label(pid), reason && reason->front() != '\0' ? ": " : "",
                                 reason ? printable(reason->data()) : "");
            }
            if (!says_that_it_takes_part(*regions_, pid) || !has_hook_thread(pid)) break;
            if (reporter_->coordinator_gone()) return fail("the coordinator has gone");
            if (Clock::now() > until)
                return fail_code(ExitCode::timed_out,
                                 "{} has not got ready for the checkpoint within {} s (cairn_hooks)",
                                 proc::label(pid), part_patience.count());
            ::usleep(between_looks_us);
        }
    }
    return {};
}

Result<> Participants::check_still(StoppedGroup& stopped) {
    for (const auto& [pid, process] : stopped.processes()) {
        if (says_that_it_takes_part(*regions_, pid)) find(pid);
        const auto found = all_.find(pid);
        if (found == all_.end()) continue;
        if (sections_of(process.living, found->second.words) == 0) continue;
        Error error{fmt::format("{} forbids checkpoints (cairn_forbid)", proc::label(pid)), 0,
                    ExitCode::refused, true};
        return std::unexpected(std::move(error));
    }
    return {};
}

Result<> Participants::mark(pid_t pid, pid_t copy) const {
    const auto found = all_.find(pid);
    if (found == all_.end()) return {};
    if (!write_word(copy, found->second.words, offsetof(PartWords, mark), capture_))
        return fail("{}: its copy can't be told that it is one (cairn_hooks)", proc::label(pid));
    return {};
}

void Participants::unmark(pid_t pid, pid_t living) const {
    if (const auto found = all_.find(pid); found != all_.end())
        (void)write_word(living, found->second.words, offsetof(PartWords, mark), found->second.mark_before);
}

void Participants::end(bool over) {
    if (!std::exchange(under_way_, false)) return;
    for (const auto& [pid, one] : all_) {
        close(pid, one, 0);
        if (one.asked)
            order(pid, one, static_cast<std::uint32_t>(over ? PartOrder::over : PartOrder::given_up));
    }
}

}  // namespace cairn::capture
