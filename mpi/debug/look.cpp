// How a rank looks in one of its states: where it is in the program, and what its call has brought.
#include <charconv>

#include "mpi/debug/history.h"

namespace cairn::mpi::debug {
namespace {

// "brought ELEMENTS BYTES HEX TYPE": interposer/contents.h.
History::Given read_given(std::string_view words) {
    const auto word = [&] {
        const std::size_t end = std::min(words.find(' '), words.size());
        const std::string_view first = words.substr(0, end);
        words.remove_prefix(std::min(end + 1, words.size()));
        return first;
    };
    const auto number = [](std::string_view digits, int base) {
        std::uint64_t value = 0;
        std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
        return value;
    };
    History::Given given;
    given.elements = number(word(), 10);
    given.bytes = number(word(), 10);
    for (std::string_view hex = word(); hex.size() >= 2; hex.remove_prefix(2))
        given.head += static_cast<char>(number(hex.substr(0, 2), 16));
    given.type = words;
    return given;
}

}  // namespace

Result<History::Seen> History::seen_of(const Checkpoint& copy) {
    CHECK_OK(copy.process.ask({.ask = Ask::stack}));
    const auto message = TRY(copy.process.hear());
    Seen seen;
    for (std::size_t begin = 0; begin < message.text.size();) {
        const std::size_t end = std::min(message.text.find('\n', begin), message.text.size());
        const std::string line = message.text.substr(begin, end - begin);
        if (line.starts_with("frame ")) seen.stack.push_back(line.substr(6));
        if (line.starts_with("brought ")) seen.given.push_back(read_given(std::string_view(line).substr(8)));
        begin = end + 1;
    }
    return seen;
}

Result<History::Seen> History::look(Spot at) {
    if (checkpoints_.empty()) CHECK_OK(start());
    const Checkpoint& last = last_before(at);
    const bool from_live = live_.process.there() && last.spot <= live_.spot && live_.spot <= at;
    Checkpoint copy = TRY(fork(from_live ? live_ : last));
    if (copy.spot == at) return seen_of(copy);
    const Show show = std::exchange(show_, [](int, bool, const std::string&) {});
    const auto shown = shown_;
    Result<RankProcess::Message> message = fail("not asked");
    if (auto asked =
            copy.process.ask({.ask = Ask::run, .within = at.within ? 1U : 0U, .position = at.position});
        !asked)
        message = std::unexpected(asked.error());
    else
        message = hear(copy);
    Result<Seen> seen = fail("not seen");
    if (message)
        seen = seen_of(copy);
    else
        seen = std::unexpected(message.error());
    // What it has written and nobody has read isn't another one's.
    copy.process.end();
    drain(copy);
    show_ = show;
    shown_ = shown;
    return seen;
}

}  // namespace cairn::mpi::debug
