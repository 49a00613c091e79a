// Asking the kernel which pages the programs have written to since the last checkpoint
// (docs/decisions/0044-write-protection.md): who has marks, and what is believed of them.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <vector>

#include "capture/checkpoint.h"
#include "capture/memory/earlier.h"
#include "capture/memory/marks.h"
#include "capture/passes/passes.h"

namespace cairn::capture {

// Of one process.
struct Watched {
    MarkMaker maker;
    const EarlierImages* earlier = nullptr;  // null: it is watched from this checkpoint on
    PageRanges marked_just_now{};  // since when they haven't changed says nothing of the newest generation
    PageRanges changing{};         // mappings that are to be let go of
    PageRanges written{};          // had no mark when all stood still
    PageRanges marked{};           // had one then
    // Pages have got marks in an attempt that came to nothing: of those it isn't known any more whether they
    // are as the newest generation has them.
    bool spoilt = false;
    bool stood_still = false;  // it was looked at in this attempt
};

// All that are watched, by the kernel's id. Goes with a checkpoint: who isn't handed on has no marks any
// more.
struct Watching {
    std::map<pid_t, Watched> all;
    // What the newest generation has of those that were watched; its links are in the new generation's
    // folder.
    std::map<ProgramId, std::unique_ptr<EarlierImages>> earlier;
};

// Before the stop. Takes from the request what the last checkpoint has left, as far as it says something;
// where few pages change all get marks, so that the pause needn't do it.
void look_at_marks(const Setting& setting, Ahead& ahead);

// While all stand still, before they are forked: new mappings are allowed to have marks, and what was written
// to gets new ones.
[[nodiscard]] Result<> set_marks(const Setting& setting, const Ahead& ahead, Members& members,
                                 const FoundObjects& objects);

// After that, and after the fork if there is one: which pages are what the newest generation has.
[[nodiscard]] PageRanges unchanged_pages(const Ahead& ahead, const Draft& draft);

// What the newest generation has of one whose marks may be believed; borrowed. Null: nobody knows.
[[nodiscard]] EarlierImages* watched_by(const Ahead& ahead, const Draft& draft);

// unchanged_pages() where nobody has been forked since: as it was seen when the marks were set.
[[nodiscard]] PageRanges unchanged_since_marks(const Ahead& ahead, const Draft& draft);

// What look_at_marks() has opened, once for all: whoever takes it has it. Null: nothing.
[[nodiscard]] std::unique_ptr<EarlierImages> earlier_looked_at(const Ahead& ahead, ProgramId process);
// Of what nobody has taken no links are left.
void drop_earlier(const Ahead& ahead);

// Of those whose images are complete.
[[nodiscard]] std::vector<KeptMarks> marks_to_keep(const Setting& setting, const Ahead& ahead,
                                                   const Drafts& drafts);

[[nodiscard]] bool has_marks(const Ahead& ahead, pid_t pid);

// Nobody has marks from now on: for a computation that has a userfaultfd of its own.
void give_up_marks(const Ahead& ahead);

// Whether somebody watches its memory, our own marks aside.
[[nodiscard]] bool is_watched(const Ahead& ahead, pid_t pid, const MemoryFlags& flags);
// A process of the group has a userfaultfd: what it watches is its room's to judge.
[[nodiscard]] bool has_userfaultfd(const ObjectTable& table);
// The error where it is somebody else. ExitCode::refused.
[[nodiscard]] Error watched_from_outside(pid_t pid);

}  // namespace cairn::capture
