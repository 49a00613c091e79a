// What functions that need nobody else say of communicators and groups: a process that is replayed alone
// can't ask the MPI for it.
#pragma once

#include <initializer_list>

#include "mpi/interposer/contents.h"

namespace cairn::mpi {

// They are to be recorded, or known from the record.
extern bool answering;

struct Ints {
    int* at;
    int count;
};
void store_answer(Fn fn, int result, std::initializer_list<Ints> values);
[[nodiscard]] int fed_answer(Fn fn, std::initializer_list<Ints> values);
void store_group(Fn fn, int result, MPI_Group group);
[[nodiscard]] int fed_group(Fn fn, MPI_Group* group);

template <class F>
int answer(Fn fn, const F& run, std::initializer_list<Ints> values) {
    const Within guard;
    if (session->alone) return fed_answer(fn, values);
    const int result = run();
    store_answer(fn, result, values);
    return result;
}

template <class F>
int answer_group(Fn fn, const F& run, MPI_Group* group) {
    const Within guard;
    if (session->alone) return fed_group(fn, group);
    const int result = run();
    store_group(fn, result, *group);
    return result;
}

}  // namespace cairn::mpi
