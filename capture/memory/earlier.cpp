#include "capture/memory/earlier.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "common/fd.h"
#include "common/schema/image_name.h"

namespace cairn::capture {
namespace {

// Each image has a link for each that it needs: not worth it for what is written in a moment. For tests:
// CAIRN_LINK=always in the coordinator's environment names earlier pages of whoever has any.
std::uint64_t worth_linking() {
    const char* wish = std::getenv("CAIRN_LINK");
    return wish != nullptr && std::string_view(wish) == "always" ? 1 : std::uint64_t{1} << 20;
}

// Of an image at least so much has to be needed still, or what is needed of it is stored anew: a generation
// takes twice what it would take alone, at most.
constexpr std::uint64_t least_needed = 2;  // 1 / 2
// Beside the newest. What is needed of more, those that have the least, is stored anew.
constexpr std::size_t most_older = 15;

}  // namespace

EarlierImages::EarlierImages(int directory, const std::string& previous, ProgramId process)
    : directory_(directory), process_(process) {
    if (previous.empty()) return;
    const auto own = schema::image_name(process);
    auto image = open_process_image(previous + "/" + own);
    if (!image || image->process.pid != process) return;
    Candidate newest{own, 0, {}};
    std::map<std::string, Candidate> older;
    for (const auto& area : image->process.areas) {
        newest.runs.insert(newest.runs.end(), area.pages.begin(), area.pages.end());
        for (const auto& part : area.borrowed.value_or(std::vector<schema::Borrowed>())) {
            if (part.from != process || !part.file) continue;
            auto& candidate = older[*part.file];
            candidate.file = *part.file;
            candidate.runs.insert(candidate.runs.end(), part.pages.begin(), part.pages.end());
            for (const auto& run : part.pages) candidate.needed += run.length;
        }
    }
    for (const auto& run : newest.runs) newest.needed += run.length;
    std::vector<Candidate> chosen;
    for (auto& [file, candidate] : older) chosen.push_back(std::move(candidate));
    std::ranges::sort(chosen, std::ranges::greater(), &Candidate::needed);
    if (chosen.size() > most_older) chosen.resize(most_older);
    auto stored = newest.needed;
    for (const auto& candidate : chosen) stored += candidate.needed;
    if (stored < worth_linking()) return;
    add(previous, newest, true);
    for (const auto& candidate : chosen) add(previous, candidate, false);
    std::ranges::sort(runs_, {}, &Run::at);
}

void EarlierImages::add(const std::string& previous, const Candidate& candidate, bool newest) {
    auto reader = ImageReader::open(previous + "/" + candidate.file);
    if (!reader || !reader->expect(ImageKind::process)) return;
    if (!newest && candidate.needed * least_needed < reader->page_bytes()) return;
    const auto hashes = reader->section(SectionType::page_hashes);
    if (!hashes) return;
    const auto name = schema::earlier_image_name(reader->id());
    const Fd from(::open(previous.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!from || ::linkat(from.get(), candidate.file.c_str(), directory_, name.c_str(), 0) != 0) return;
    if (newest) newest_id_ = reader->id();
    const auto number = images_.size();
    auto& image = images_.emplace_back();
    image.name = name;
    image.bytes = reader->file_size();
    image.hashes.replace_by(*hashes);
    for (const auto& run : candidate.runs) runs_.push_back({run.at, run.length, run.offset, number});
}

std::optional<EarlierImages::Page> EarlierImages::find(ProgramAddress address, std::uint64_t hash) const {
    auto run = std::ranges::upper_bound(runs_, address, {}, &Run::at);
    if (run == runs_.begin()) return {};
    --run;
    if (address >= run->at + run->length) return {};
    const auto offset = run->offset + (address - run->at);
    if (images_[run->image].hashes.at(offset) != hash) return {};
    return Page{run->image, offset};
}

std::uint64_t EarlierImages::hash_of(ProgramAddress address) const {
    const auto run = first_run_in({address, address + image_page});
    if (run == runs_.end() || address < run->at) return 0;
    return images_[run->image].hashes.at(run->offset + (address - run->at));
}

// The first that ends behind the range's start.
std::vector<EarlierImages::Run>::const_iterator EarlierImages::first_run_in(ProgramRange range) const {
    auto run = std::ranges::upper_bound(runs_, range.start, {}, &Run::at);
    if (run != runs_.begin() && range.start < std::prev(run)->at + std::prev(run)->length) --run;
    return run;
}

std::vector<EarlierImages::Part> EarlierImages::parts_in(ProgramRange range) const {
    std::vector<Part> parts;
    for (auto run = first_run_in(range); run != runs_.end() && run->at < range.end; ++run) {
        const auto end = std::min(range.end, run->at + run->length);
        auto at = std::max(range.start, run->at);
        const auto hashes =
            images_[run->image].hashes.from(run->offset + (at - run->at), (end - at) / image_page);
        // Without those that aren't known.
        for (std::size_t first = 0; first < hashes.size();) {
            if (hashes[first] == 0) {
                ++first;
                continue;
            }
            auto behind = first + 1;
            while (behind < hashes.size() && hashes[behind] != 0 &&
                   (behind - first) * image_page < image_max_run)
                ++behind;
            const auto place = at + first * image_page;
            parts.push_back({run->image,
                             {place, (behind - first) * image_page, run->offset + (place - run->at),
                              run_hash(hashes.subspan(first, behind - first))}});
            first = behind;
        }
    }
    return parts;
}

std::vector<ProgramAddress> EarlierImages::sample(ProgramRange range, std::size_t most) const {
    std::vector<ProgramRange> known;
    std::uint64_t pages = 0;
    for (auto run = first_run_in(range); run != runs_.end() && run->at < range.end; ++run) {
        known.push_back({std::max(range.start, run->at), std::min(range.end, run->at + run->length)});
        pages += known.back().length() / image_page;
    }
    std::vector<ProgramAddress> chosen;
    const auto step = std::max<std::uint64_t>(1, pages / std::max<std::size_t>(most, 1));
    std::uint64_t skip = step / 2;
    for (const auto& each : known) {
        const auto there = each.length() / image_page;
        for (; skip < there && chosen.size() < most; skip += step)
            chosen.push_back(each.start + skip * image_page);
        if (skip >= there) skip -= there;
    }
    return chosen;
}

std::vector<schema::ManifestEarlier> EarlierImages::finish() {
    std::vector<schema::ManifestEarlier> all;
    for (const auto& image : images_)
        if (image.used)
            all.push_back({image.name, process_, image.bytes});
        else
            ::unlinkat(directory_, image.name.c_str(), 0);
    return all;
}

}  // namespace cairn::capture
