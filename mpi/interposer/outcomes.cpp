#include "mpi/interposer/outcomes.h"

#include <algorithm>

#include "mpi/interposer/another_first.h"
#include "mpi/interposer/otherwise.h"

namespace cairn::mpi {

bool recorded_answer() {
    Session& s = *session;
    if (!s.falses_known) {
        const auto falses = s.reader->next(Column::falses);
        // Behind the last yes there may be some more that said no.
        if (!falses) {
            s.falses = ~std::uint64_t{0};
        } else {
            s.falses = *falses;
        }
        s.falses_known = true;
    }
    const bool yes = s.falses == 0;
    if (yes)
        s.falses_known = false;
    else
        --s.falses;
    ++s.said;
    write_answer(yes);
    came_to(yes ? 2 : 1);
    if (noting) [[unlikely]]
        note_answer();
    return yes;
}

std::int64_t recorded_number() {
    const auto value = session->reader->next(Column::index);
    if (!value) record_ends();
    if (writing()) session->writer->put(Column::index, *value);
    ++session->said;
    came_to(static_cast<std::uint64_t>(unzigzag(*value)) + 3);
    if (noting) [[unlikely]]
        note_number();
    return unzigzag(*value);
}

namespace {

void probe_came_to(int source, int tag, const Envelope& found) {
    if (source != MPI_ANY_SOURCE && tag != MPI_ANY_TAG) return;
    ++session->said;
    came_to(static_cast<std::uint64_t>(static_cast<std::uint32_t>(found.source)) << 32 |
            static_cast<std::uint32_t>(found.tag));
}

}  // namespace

void record_probe(int source, int tag, const Envelope& found) {
    if (writing()) {
        RecordWriter& out = *session->writer;
        if (source == MPI_ANY_SOURCE) out.put(Column::probe_source, zigzag(found.source));
        if (tag == MPI_ANY_TAG) out.put(Column::probe_tag, zigzag(found.tag));
    }
    probe_came_to(source, tag, found);
}

Envelope recorded_probe(int source, int tag) {
    RecordReader& in = *session->reader;
    Envelope found{source, tag};
    const auto replay = [&](Column column, int& into) {
        const auto value = in.next(column);
        if (!value) record_ends();
        into = static_cast<int>(unzigzag(*value));
    };
    if (source == MPI_ANY_SOURCE) replay(Column::probe_source, found.source);
    if (tag == MPI_ANY_TAG) replay(Column::probe_tag, found.tag);
    record_probe(source, tag, found);
    return found;
}

void post_receive(Posted& into, int source, int tag) {
    Session& s = *session;
    into.source = source;
    into.tag = tag;
    if (source == MPI_PROC_NULL) return;
    into.any_source = source == MPI_ANY_SOURCE;
    into.any_tag = tag == MPI_ANY_TAG;
    into.post = s.receives++;
    if (!into.wild()) {
        if (replaying()) into.dead = std::binary_search(s.cancelled.begin(), s.cancelled.end(), into.post);
        return;
    }
    into.match = s.wilds++;
    if (writing()) s.match_writer.post(into.match);
    if (!replaying()) return;
    const auto match = s.match_reader.match(*s.reader, into.match);
    into.dead = !match || match->cancelled;
    if (into.dead) return;
    if (match->source) into.source = *match->source;
    if (match->tag) into.tag = *match->tag;
}

void complete_receive(const Posted& posted, const MPI_Status& got, bool seen) {
    Session& s = *session;
    const MPI_Status status = session->alone ? as_recorded(got) : got;
    const auto result = [&](std::uint64_t outcome) {
        if (seen) came_to(outcome);
        if (seen && noting) [[unlikely]]
            note_outcome(outcome);
    };
    int cancelled = 0;
    if (posted.cancel) ::PMPI_Test_cancelled(&status, &cancelled);
    if (!posted.wild()) {
        if (cancelled == 0) return;
        if (writing()) {
            s.writer->put(Column::cancelled, zigzag(static_cast<std::int64_t>(posted.post) -
                                                    static_cast<std::int64_t>(s.last_cancelled)));
            s.last_cancelled = posted.post;
        }
        result(7);
        return;
    }
    ++s.said;
    Match match;
    match.cancelled = cancelled != 0;
    if (!match.cancelled && posted.any_source) match.source = status.MPI_SOURCE;
    if (!match.cancelled && posted.any_tag) match.tag = status.MPI_TAG;
    if (writing()) s.match_writer.complete(*s.writer, posted.match, match);
    result(match.cancelled ? 7
                           : static_cast<std::uint64_t>(static_cast<std::uint32_t>(status.MPI_SOURCE)) << 32 |
                                 static_cast<std::uint32_t>(status.MPI_TAG));
}

void failed_receive(const Posted& posted) {
    if (!posted.wild() || !writing()) return;
    session->match_writer.complete(*session->writer, posted.match,
                                   {.cancelled = true, .source = {}, .tag = {}});
}

int post_dead(void* buf, int count, MPI_Datatype type, MPI_Request* request) {
    return real.Irecv(buf, count, type, 0, 0, session->own, request);
}

}  // namespace cairn::mpi
