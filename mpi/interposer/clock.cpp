// MPI_Wtime with record --clock, for programs whose path depends on what it says.
#include <bit>

#include "mpi/interposer/handlers.h"
#include "mpi/interposer/outcomes.h"

namespace cairn::mpi {

double on_Wtime() {
    Session& s = *session;
    const Inside guard(Inside::no_event);
    if (replaying()) {
        const auto step = s.reader->next(Column::clock);
        if (!step) record_ends();
        s.told += static_cast<std::uint64_t>(unzigzag(*step));
        return std::bit_cast<double>(s.told);
    }
    const double time = real_wtime();
    const auto now = std::bit_cast<std::uint64_t>(time);
    if (recording()) s.writer->put(Column::clock, zigzag(static_cast<std::int64_t>(now - s.told)));
    s.told = now;
    return time;
}

}  // namespace cairn::mpi
