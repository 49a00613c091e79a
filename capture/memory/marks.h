// Marks in a process's page table, which the kernel takes away when somebody writes to the page:
// userfaultfd(2) with asynchronous write protection. What may be believed of them, and why, is in
// docs/decisions/0044-write-protection.md: only a mark, never its absence.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "common/program_address.h"

namespace cairn::capture {

// Of whole pages, in order, apart from each other.
using PageRanges = std::vector<ProgramRange>;

[[nodiscard]] PageRanges without(const PageRanges& from, const PageRanges& what);
[[nodiscard]] PageRanges in_both(const PageRanges& a, const PageRanges& b);
[[nodiscard]] std::uint64_t length_of(const PageRanges& ranges);  // bytes

// Whether this kernel's marks can be believed, by its number: before, a mapping that is moved may keep some.
[[nodiscard]] bool has_marks_to_believe();

// A userfaultfd of another process's memory.
class MarkMaker {
  public:
    // `fresh`: one that was only just made. An error where the kernel hasn't what is needed.
    [[nodiscard]] static Result<MarkMaker> begin(Fd fresh);
    // One that has begun before.
    explicit MarkMaker(Fd userfault) : userfault_(std::move(userfault)) {}

    // A whole mapping can have marks from now on, if it couldn't before. False: it can't, for somebody else
    // has a userfaultfd there, or it isn't of that kind. Both are for a process that stands still.
    [[nodiscard]] bool allow(ProgramRange mapping) const;
    // Its marks are gone, and it can have none.
    void let_go(ProgramRange mapping) const;

    [[nodiscard]] Fd release() { return std::move(userfault_); }

  private:
    Fd userfault_;
};

// The marks in a process's page table. What is said of pages is said only of those that are there, aren't the
// page of zeros, and can have marks.
class PageMarks {
  public:
    [[nodiscard]] static Result<PageMarks> of(pid_t pid);

    struct Seen {
        PageRanges marked, written;
    };
    [[nodiscard]] Result<Seen> look(ProgramRange range) const;
    [[nodiscard]] bool has_any(ProgramRange range) const;  // marked pages; an error is none
    [[nodiscard]] bool can_have_any(ProgramRange range) const;
    // Those without a mark get one: which.
    [[nodiscard]] Result<PageRanges> set(ProgramRange range) const;
    // Whether something is in the page's place, in memory.
    [[nodiscard]] bool is_there(ProgramAddress page) const;

  private:
    explicit PageMarks(Fd map) : map_(std::move(map)) {}
    [[nodiscard]] bool is_any(ProgramRange range, std::uint64_t but) const;
    Fd map_;
};

}  // namespace cairn::capture
