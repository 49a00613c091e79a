// What isn't compared before and after, each with its reason. A rule without one is a difference that nobody
// has looked at.
#pragma once

#include <span>

namespace cairn::witness {

enum class How {
    // Whatever it is, or, with `value`, where the whole value before and the one after is so.
    ignored,
    // Compared only where it was seen both before and after.
    if_seen,
    // What `value` finds is taken out of both, and the rest is compared.
    in_parts,
    // The one group of `value` is a number that the kernel gives (an inode, an id): it may be another, but
    // the same for all who had the same,
    // and different for those who had different ones; the rest of the value is to be as it was.
    renamed,
};

struct Rule {
    const char* name;             // regular expression over the whole of a fact's name
    const char* reason;           // why a program can't mind, or what is to be built
    const char* value = nullptr;  // regular expression
    How how = How::ignored;
};

[[nodiscard]] std::span<const Rule> rules();
// More of them for programs that go on between the looks: what they do themselves isn't compared, only what
// they have.
[[nodiscard]] std::span<const Rule> rules_of_living();

}  // namespace cairn::witness
