#include "mpi/interposer/answers.h"

namespace cairn::mpi {

bool answering = false;

namespace {

// Weights that the program doesn't want have addresses of their own.
bool is_there(const Ints& values) {
    return values.at != nullptr && values.at != MPI_UNWEIGHTED && values.at != MPI_WEIGHTS_EMPTY;
}

int fed_call(Fn fn) {
    const std::uint64_t recorded = fed_number();
    if (recorded != static_cast<std::uint64_t>(fn))
        depart(
            recorded < static_cast<std::uint64_t>(Fn::count_) ? name(static_cast<Fn>(recorded)) : "an event",
            name(fn));
    return fed_result(MPI_COMM_NULL);
}

}  // namespace

void store_answer(Fn fn, int result, std::initializer_list<Ints> values) {
    store_number(static_cast<std::uint64_t>(fn));
    store_result(result);
    if (result != MPI_SUCCESS) return;
    for (const Ints& each : values)
        for (int i = 0; is_there(each) && i < each.count; ++i) store_number(zigzag(each.at[i]));
}

int fed_answer(Fn fn, std::initializer_list<Ints> values) {
    const int result = fed_call(fn);
    if (result != MPI_SUCCESS) return result;
    for (const Ints& each : values)
        for (int i = 0; is_there(each) && i < each.count; ++i)
            each.at[i] = static_cast<int>(unzigzag(fed_number()));
    return result;
}

void store_group(Fn fn, int result, MPI_Group group) {
    store_number(static_cast<std::uint64_t>(fn));
    store_result(result);
    store_number(group == MPI_GROUP_NULL ? 0 : group == MPI_GROUP_EMPTY ? 1 : 2);
}

int fed_group(Fn fn, MPI_Group* group) {
    const int result = fed_call(fn);
    const std::uint64_t which = fed_number();
    *group = which == 0 ? MPI_GROUP_NULL : MPI_GROUP_EMPTY;
    if (which == 2) ::PMPI_Comm_group(MPI_COMM_SELF, group);
    return result;
}

}  // namespace cairn::mpi
