// The debugger's `what-if request`: where a rank that runs alone waited for one of several requests, another
// one of them is complete first. From there on each call that completes requests gets those that have been
// completed in the record by then and that it hasn't had, in their order. Which request a completion of the
// record was for isn't in the record: a copy that goes as recorded notes it.
#pragma once

#include "mpi/interposer/contents.h"

namespace cairn::mpi {

// Which requests the call that is under way chooses from, for whoever looks at a copy that stands in it.
class Offered {
  public:
    Offered(int count, const MPI_Request* requests);
    ~Offered();
    Offered(const Offered&) = delete;
    Offered& operator=(const Offered&) = delete;
};
// "INDEX NUMBER", a line for each that is open: its place among them, and the trace's number of it.
[[nodiscard]] std::string offered_lines();

// From now on is noted what the record says of requests, and the message of the one with this number of the
// trace is kept. Takes memory of the program's heap, so a copy is told so.
void note_completions(std::uint32_t wanted);
// As a file in memory, to be closed; -1: there is none.
[[nodiscard]] int noted_completions();
extern bool noting;
void note_answer();
void note_number();
// As fed_received().
[[nodiscard]] int feed_noted(std::uint32_t request, const Posted& posted, MPI_Status& status,
                             const WantedMessage& asked);
// The request has been completed; not `done`: the call has failed, and this one is as it was.
void note_completion(std::uint32_t request, bool receive, bool done);
void note_outcome(std::uint64_t outcome);

// In call `call` the request with this number comes first; `file`: what another copy has noted from there on.
void complete_first(int file, std::uint64_t call, std::uint32_t request);
// The call that is under way comes behind that. It is then one of these that has to be called.
[[nodiscard]] bool in_another_order();
int wait_in_order(MPI_Request* request, MPI_Status* status);
int wait_all_in_order(int count, MPI_Request* requests, MPI_Status* statuses);
int test_in_order(MPI_Request* request, int* flag, MPI_Status* status);
int test_all_in_order(int count, MPI_Request* requests, int* flag, MPI_Status* statuses);
// `flag`: of a test.
int any_in_order(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status);
int some_in_order(int count, MPI_Request* requests, int* outcount, int* indices, MPI_Status* statuses,
                  bool test);
// What can't be followed there.
void depart_in_another_order(const char* what);

}  // namespace cairn::mpi
