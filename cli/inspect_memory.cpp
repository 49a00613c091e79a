#include "cli/inspect_memory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "common/schema/image_name.h"
#include "resources/file/schema_identity.h"

namespace cairn::inspect {
namespace {

using Pieces = std::vector<MemoryPiece>;

void add_runs(Pieces& pieces, PageReader* source, const std::vector<schema::PageRun>& runs) {
    for (const auto& run : runs) pieces.push_back({run.at, run.length, source, run.offset});
}

// What `pieces` leave out between these addresses is what `filler` gives for a stretch.
template <class Filler>
Pieces filled(const Pieces& pieces, ProgramAddress start, ProgramAddress end, const Filler& filler) {
    Pieces all;
    const auto fill = [&](ProgramAddress from, ProgramAddress to) {
        if (from < to) filler(all, from, to - from);
    };
    ProgramAddress at = start;
    for (const auto& piece : pieces) {
        fill(at, piece.at);
        all.push_back(piece);
        at = piece.at + piece.length;
    }
    fill(at, end);
    return all;
}

void zeros(Pieces& all, ProgramAddress at, std::uint64_t length) {
    all.push_back({at, length, nullptr, 0});
}

std::uint64_t size_of(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

}  // namespace

PageReader* ProcessMemory::source_of(const PageData& data) {
    return &sources_.try_emplace(data.fd, data).first->second;
}

Result<const ImageReader*> ProcessMemory::borrowed_from(const schema::Borrowed& part) {
    for (const auto& each : checkpoint_.processes)
        if (!part.file && each.process.pid == part.from && each.part == process_.part) return &each.reader;
    const auto name = schema::image_name(part);
    auto& known = others_[name];
    if (!known)
        known = std::make_unique<ImageReader>(
            TRY(ImageReader::open(std::filesystem::path(process_.path).parent_path() / name)));
    return known.get();
}

Result<Pieces> ProcessMemory::stored_pages(const schema::Area& area) {
    Pieces pieces;
    CHECK_OK(verify_pages(process_.reader, area.pages));
    add_runs(pieces, source_of(process_.reader.page_data()), area.pages);
    if (area.borrowed)
        for (const auto& each : *area.borrowed) {
            const ImageReader* const other = TRY(borrowed_from(each));
            CHECK_OK(verify_pages(*other, each.pages));
            add_runs(pieces, source_of(other->page_data()), each.pages);
        }
    std::ranges::sort(pieces, {}, &MemoryPiece::at);
    return pieces;
}

Result<Pieces> ProcessMemory::shared_pages(const schema::Area& area) {
    Pieces pieces;
    const schema::Object* object = checkpoint_.object(process_.part, area.object);
    if (object != nullptr && object->backing >= 0)
        object = checkpoint_.object(process_.part, object->backing);
    const auto* memory = object == nullptr ? nullptr : object->get<schema::Memory>();
    if (memory == nullptr) return pieces;
    for (const auto& image : checkpoint_.objects) {
        if (image.part != process_.part && image.part != 0) continue;
        if (std::ranges::find(image.objects.objects, object->id, &schema::Object::id) ==
            image.objects.objects.end())
            continue;
        CHECK_OK(verify_pages(image.reader, memory->pages));
        const std::uint64_t from = area.file_offset, to = from + (area.end - area.start);
        for (const auto& run : memory->pages) {
            const std::uint64_t begin = std::max(run.at, from), end = std::min(run.at + run.length, to);
            if (begin < end)
                pieces.push_back({area.start + (begin - from), end - begin,
                                  source_of(image.reader.page_data()), run.offset + (begin - run.at)});
        }
        break;
    }
    return filled(pieces, area.start, area.end, zeros);
}

const Fd* ProcessMemory::file_of(const schema::Area& area) {
    const auto [place, is_new] = files_.try_emplace(area.object);
    const auto known = [&] { return place->second ? &place->second : nullptr; };
    if (!is_new) return known();
    const schema::Object* const object = checkpoint_.object(process_.part, area.object);
    if (object == nullptr || !object->is<schema::File>()) return nullptr;
    Fd file(::open(object->path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    const bool same = file && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) &&
                      static_cast<std::uint64_t>(status.st_size) == object->identity.size &&
                      identity_of(status).mtime_ns == object->identity.mtime_ns;
    if (same)
        place->second = std::move(file);
    else
        unknown_files_.push_back(object->path);
    return known();
}

Result<Pieces> ProcessMemory::pieces_of(const schema::Area& area) {
    using Kind = schema::AreaKind;
    if (const auto known = known_.find(area.start); known != known_.end()) return known->second;
    Pieces pieces;
    if (area.kind == Kind::shared_memory) {
        pieces = TRY(shared_pages(area));
    } else if (area.kind != Kind::vvar && area.kind != Kind::region) {
        pieces = TRY(stored_pages(area));
        if (area.kind == Kind::anonymous) pieces = filled(pieces, area.start, area.end, zeros);
        if (area.kind == Kind::file_private || area.kind == Kind::file_shared) {
            const Fd* const file = file_of(area);
            const std::uint64_t size = file == nullptr ? 0 : size_of(file->get());
            auto* const source = file == nullptr ? nullptr : source_of({file->get(), area.name, nullptr});
            // Behind the end of the file there is nothing but the rest of its last page.
            pieces = filled(pieces, area.start, area.end,
                            [&](Pieces& all, ProgramAddress at, std::uint64_t length) {
                                const std::uint64_t offset = area.file_offset + (at - area.start);
                                const std::uint64_t there = std::min(length, size - std::min(size, offset));
                                if (there != 0) all.push_back({at, there, source, offset, true});
                                if (file != nullptr && there < length) zeros(all, at + there, length - there);
                            });
        }
    }
    return known_[area.start] = std::move(pieces);
}

Result<std::string> ProcessMemory::read(ProgramAddress address, std::size_t length) {
    std::string bytes;
    for (const auto& area : process_.process.areas) {
        if (address + bytes.size() < area.start || address + bytes.size() >= area.end) continue;
        for (const auto& piece : TRY(pieces_of(area))) {
            const ProgramAddress at = address + bytes.size();
            if (bytes.size() == length || at < piece.at || at >= piece.at + piece.length) continue;
            const std::uint64_t skipped = at - piece.at;
            const std::size_t some = std::min<std::uint64_t>(length - bytes.size(), piece.length - skipped);
            const std::size_t before = bytes.size();
            bytes.resize(before + some);
            if (piece.source != nullptr)
                CHECK_OK(piece.source->read(piece.offset + skipped, writable(bytes).subspan(before)));
        }
        if (bytes.size() == length) break;
    }
    return bytes;
}

}  // namespace cairn::inspect
