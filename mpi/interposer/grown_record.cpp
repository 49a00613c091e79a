#include "mpi/interposer/grown_record.h"

#include <algorithm>

#include "mpi/interposer/outcomes.h"

namespace cairn::mpi {
namespace {

// Counted down from here as long as the record doesn't say how many there are.
constexpr std::uint64_t without_end = ~std::uint64_t{0};

void find_end(Column column, std::uint64_t& left) {
    constexpr std::uint64_t some_count = without_end / 2;  // no record has as many
    if (left < some_count) return;
    const std::uint64_t passed = without_end - left;
    if (const auto all = session->reader->next(column)) left = *all - passed;
}

void look_at_open_receives() {
    Session& s = *session;
    read_cancelled();
    s.match_reader.look_again();
    s.requests.each([&](Posted& posted) {
        if (posted.send || posted.collective || posted.matched || !posted.open()) return;
        if (!posted.wild()) {
            posted.dead = std::binary_search(s.cancelled.begin(), s.cancelled.end(), posted.post);
        } else if (posted.dead) {
            const auto match = s.match_reader.match(*s.reader, posted.match);
            posted.dead = !match || match->cancelled;
            if (match && match->source) posted.source = *match->source;
            if (match && match->tag) posted.tag = *match->tag;
        }
    });
}

}  // namespace

Result<> take_up_grown_record() {
    Session& s = *session;
    if (!s.reader->has_grown()) return {};
    auto now = TRY(RecordReader::open(s.folder, s.rank));
    CHECK_OK(now->go_on_as(*s.reader));
    s.reader = std::move(now);
    if (s.hits_known) find_end(Column::hits, s.hits);
    if (s.falses_known) find_end(Column::falses, s.falses);
    look_at_open_receives();
    return {};
}

}  // namespace cairn::mpi
