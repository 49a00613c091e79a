// Apart from the rest of the writer, which runs inside programs and without the reader.
#include <fcntl.h>
#include <unistd.h>

#include "causality/trace_reader.h"
#include "causality/trace_writer.h"

namespace cairn::causality {

Result<TraceWriter> TraceWriter::resume(const std::string& path, std::size_t block_bytes) {
    const std::string paths[] = {path};
    const auto reader = TRY(TraceReader::open(paths));
    const TraceReader::Content content = reader->content();
    if (content.has_tail)
        return fail_code(ExitCode::refused,
                         "{} was written by a program that it ends with; it can't be continued", path);
    Fd fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    if (!fd) return fail_errno("opening the trace {}", path);
    // A crash from here on leaves a trace that wasn't closed.
    if (::ftruncate(fd.get(), static_cast<off_t>(content.bytes)) != 0)
        return fail_errno("taking back the end of the trace {}", path);
    TraceWriter writer(std::move(fd), path, reader->processes(), block_bytes);
    writer.bytes_ = content.bytes;
    writer.blocks_ = content.blocks;
    for (Process process = 0; process < writer.buffers_.size(); ++process) {
        writer.buffers_[process].first = content.events[process];
        writer.buffers_[process].ended = content.ended[process];
    }
    for (std::uint32_t number = 1; number < reader->types().size(); ++number)
        writer.types_.try_emplace(reader->types()[number], number);
    const std::vector<Place>& places = reader->places();
    for (std::uint32_t number = 1; number < places.size(); ++number)
        writer.places_.try_emplace(places[number], number);
    return writer;
}

}  // namespace cairn::causality
