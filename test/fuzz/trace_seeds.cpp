// Writes the traces that fuzzing starts from: trace_seeds FOLDER makes FOLDER/{binary,lines}/.
#include <filesystem>
#include <fstream>

#include "causality/open_trace.h"
#include "test/causality/random.h"

int main(int argc, char** argv) {
    namespace fs = std::filesystem;
    using namespace cairn;
    if (argc != 2) return 2;
    const fs::path folder = argv[1];
    fs::remove_all(folder);
    fs::create_directories(folder / "binary");
    fs::create_directories(folder / "lines");
    const std::string scratch = folder / "scratch";
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        test::Random random(seed);
        auto trace = test::random_trace(random, {.processes = 2 + random.below(4),
                                                 .events = 4 + random.below(40),
                                                 .numbered = random.chance(50),
                                                 .requests = random.chance(50),
                                                 .nondeterministic = random.chance(50)});
        for (const bool lines : {false, true}) {
            fs::remove(scratch);
            trace.rewind();
            if (!(lines ? causality::write_lines(trace, scratch) : causality::write_binary(trace, scratch)))
                return 1;
            std::ifstream in(scratch, std::ios::binary);
            std::ofstream out(folder / (lines ? "lines" : "binary") / std::to_string(seed), std::ios::binary);
            out.put('\1');
            out << in.rdbuf();
        }
    }
    fs::remove(scratch);
}
