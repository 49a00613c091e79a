"""Programs of others at work: compilers, programs of science, learning machines, emulators, archivers; what they have made after three restarts is what an undisturbed run makes.
at_work.py [NAME...]: all that are installed, if none is named; --witness compares what the kernel shows as well (docs/programs.md)."""
# ci: none (its packages are heavy: where they are installed)
# timeout: 14400
import os
import shutil
import subprocess
from cairn_test import Failure, Skip, same_as_undisturbed, table

C_FUNCTIONS = ("for i in $(seq $N); do echo \"int f$i(int *a, int n) {{ int s = $i; for (int i = 0; i < n; i++) {{ if (a[i] % $((i % 7 + 2))) s += a[i] * $i; else s ^= a[i] >> (s & 7); }} "
               "switch (s & 7) {{ case 1: return s * 3; case 2: return s - n; case 5: return f0(s); default: return s; }} }}\"; done").replace("{{", "{").replace("}}", "}")

# Name: what has to be installed, what fills the working folder, what is run there, and the size to begin with ($N): it grows until the run takes some seconds.
# Everything that is left in the folder has to be equal, so what tells times or process ids is removed by the command itself.
COMPILERS = {
    "gcc": ("gcc", "(echo 'int f0(int);'; " + C_FUNCTIONS + ") >a.c", "gcc -O2 -c a.c -o a.o", 400),
    "g++": ("g++", "(echo '#include <map>\n#include <regex>\n#include <string>'; for i in $(seq $N); do echo \"struct T$i { int a[$i]; }; std::map<std::string, T$i> m$i; int g$i(std::string s) { m$i[s].a[0]++; return std::regex_match(s, std::regex(\\\"a$i*\\\")); }\"; done) >a.cpp",
            "g++ -O1 -c a.cpp -o a.o", 20),
    "clang": ("clang", "(echo 'int f0(int);'; " + C_FUNCTIONS + ") >a.c", "clang -O2 -c a.c -o a.o", 400),
    "make": ("make gcc", "for j in $(seq 8); do (echo 'int f0(int);'; " + C_FUNCTIONS + ") | sed \"s/int f\\([1-9]\\)/int g${j}_\\1/\" >p$j.c; done; printf 'all: $(patsubst %%.c,%%.o,$(wildcard *.c))\n%%.o: %%.c\n\tgcc -O2 -c $< -o $@\n' >Makefile",
             "make -j2 | sort", 40),
    "cmake-ninja": ("cmake ninja g++", "mkdir s; cp -r $CAIRN_SOURCE/causality $CAIRN_SOURCE/common s; printf 'cmake_minimum_required(VERSION 3.20)\nproject(p CXX)\nset(CMAKE_CXX_STANDARD 23)\nfile(GLOB f causality/*.cpp)\nadd_library(c STATIC ${f})\ntarget_include_directories(c PRIVATE .)\n' >s/CMakeLists.txt",
                    "cmake -G Ninja -S s -B b -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=/usr/bin/g++ >log && ninja -C b -j2 >>log && mv b/libc.a . && rm -r b log", 1),
    "rustc": ("rustc", "(for i in $(seq $N); do echo \"pub fn f$i(v: &[i64]) -> i64 { let mut w: Vec<String> = v.iter().filter(|x| *x % $i != 0).map(|x| format!(\\\"{}-$i\\\", x)).collect(); w.sort(); w.iter().map(|s| s.len() as i64 * $i).sum() }\"; done; echo 'fn main() { let v: Vec<i64> = (0..100).collect();'; for i in $(seq $N); do echo \"println!(\\\"{}\\\", f$i(&v));\"; done; echo '}') >a.rs",
              "rustc -O -C codegen-units=2 a.rs -o a && ./a >out", 30),
    "cargo": ("cargo rustc", "cargo init -q --vcs none --name p . && for j in 1 2 3 4; do (cd . && cargo new -q --vcs none --lib l$j; for i in $(seq $N); do echo \"pub fn f$i(v: &[i64]) -> String { let mut w: Vec<String> = v.iter().filter(|x| *x % $i != 0).map(|x| format!(\\\"{}-$i\\\", x)).collect(); w.sort(); w.join(\\\",\\\") }\"; done >l$j/src/lib.rs; echo \"l$j = { path = \\\"l$j\\\" }\" >>Cargo.toml); done; echo 'fn main() { println!(\"{}{}\", l1::f1(&[1]), l4::f2(&[3])); }' >src/main.rs",
              "cargo build -q --offline --release -j 2 && target/release/p >out && rm -r target", 30),
    "javac": ("javac", "for i in $(seq $N); do echo \"import java.util.*; public class C$i { Map<String, List<Integer>> m = new TreeMap<>(); int f(int x) { return m.computeIfAbsent(\\\"k\\\" + x, k -> new ArrayList<>()).stream().mapToInt(y -> y * $i).sum() + (x > 0 ? new C$(((i + 1) % N + 1))().f(x - 1) : 0); } }\" >C$i.java; done", "javac *.java", 200),
    "go": ("go", "printf 'module p\n\ngo 1.19\n' >go.mod; printf 'package main\n\nimport (\"encoding/json\"; \"fmt\")\n\nfunc main() { b, _ := json.Marshal(map[string]int{\"a\": 1}); fmt.Println(string(b)) }\n' >main.go", "GOFLAGS=-trimpath GOCACHE=$PWD/cache CGO_ENABLED=0 go build -p 2 -o prog . && ./prog && chmod -R u+w cache && rm -r cache", 1),
    "ghc": ("ghc", "(echo 'module Main where\nimport qualified Data.Map as M'; for i in $(seq $N); do printf \"f$i :: Int -> M.Map Int Int -> Int\nf$i x m = M.foldrWithKey (\\\\\\\\k v a -> k * v + a * $i) x (M.map (+ $i) m)\n\"; done; echo 'main :: IO ()'; echo 'main = print (f1 2 (M.fromList [(1, 2)]))') >Main.hs", "ghc -v0 -O2 Main.hs -o m && ./m", 60),
    "tsc": ("tsc", "for i in $(seq $N); do echo \"export interface I$i<T> { a: T; b: Array<I$i<T>>; } export function f$i<T extends { n: number }>(x: I$i<T>): number { return x.b.map(y => f$i(y) * $i).reduce((s, y) => s + y, x.a.n); }\"; done >a.ts", "tsc --target es2017 --strict a.ts", 200),
    "pdflatex": ("pdflatex", "(echo '\\documentclass{article}\\begin{document}\\tableofcontents'; for i in $(seq $N); do echo \"\\section{Part $i}\\label{s$i}\"; for j in 1 2 3 4 5; do echo \"Text $i of $j, see \\ref{s$j}: \\[ \\sum_{k=0}^{$i} \\frac{k^{$j}}{\\sqrt{$i+k}} \\]\"; echo; done; done; echo '\\end{document}') >a.tex",
                 "export SOURCE_DATE_EPOCH=0 FORCE_SOURCE_DATE=1 TEXMFVAR=$PWD/var; for i in 1 2 3; do pdflatex -interaction=batchmode a.tex || exit 1; done; rm -rf var a.log", 300),
    "lualatex": ("lualatex", "(echo '\\documentclass{article}\\begin{document}'; for i in $(seq $N); do echo \"\\section{Part $i}\\label{s$i}\"; for j in 1 2 3 4 5; do echo \"Text $i of $j, see \\ref{s$j}: \\[ \\sum_{k=0}^{$i} \\frac{k^{$j}}{\\sqrt{$i+k}} \\]\"; echo; done; done; echo '\\directlua{local s = 0 for i = 1, 3000000 do s = s + i \\csstring\\% 7 end tex.print(s)}\\end{document}') >a.tex",
                 "export SOURCE_DATE_EPOCH=0 FORCE_SOURCE_DATE=1 TEXMFVAR=$PWD/var; lualatex -interaction=batchmode a.tex >out; test -s a.pdf && rm -rf var a.log out", 200),
    "ocamlopt": ("ocamlopt", "for i in $(seq $N); do echo \"let rec f$i x l = match l with [] -> x | (a, b) :: r when a > $i -> f$i (x + a * b) r | (a, _) :: r -> f$i (x - a) (List.rev r)\"; done >a.ml; echo 'let () = print_int (f1 1 [(1, 2); (3, 4)])' >>a.ml", "ocamlopt -O3 a.ml -o a && ./a", 300),
    "gfortran": ("gfortran", "(for i in $(seq $N); do echo \"subroutine s$i(a, n)\n integer :: n, i, j\n real(8) :: a(n, n)\n do j = 2, n\n do i = 2, n\n a(i, j) = a(i - 1, j) * sin(a(i, j - 1)) + $i\n end do\n end do\n a = matmul(a, transpose(a))\nend subroutine\"; done) >a.f90", "gfortran -O3 -c a.f90 -o a.o", 60),
    "fpc": ("fpc", "(echo 'program p; {$mode objfpc}'; for i in $(seq $N); do echo \"function f$i(x: longint): longint; var i: longint; begin result := x; for i := 1 to x do if i mod $i = 0 then result := result + i else result := result xor i; end;\"; done; echo 'begin writeln(f1(3)); end.') >a.pas", "fpc -O3 -v0 a.pas >/dev/null && ./a", 3000),
    "gnat": ("gnatmake", "(echo 'with Ada.Text_IO; procedure A is'; for i in $(seq $N); do echo \"function F$i (X : Integer) return Integer is S : Integer := X; begin for I in 1 .. X loop S := (S * $i + I) mod 10007; end loop; return S; end F$i;\"; done; echo 'begin Ada.Text_IO.Put_Line (Integer (F1 (3))'\"'\"'Image); end A;') >a.adb; touch -d @1700000000 a.adb", "gnatmake -q -O2 a.adb && ./a", 200),
}

SCIENCE = {
    "gromacs": ("gmx", "printf '#include \"oplsaa.ff/forcefield.itp\"\n#include \"oplsaa.ff/spce.itp\"\n[ system ]\nwater\n[ molecules ]\n' >t.top; gmx -quiet solvate -cs spc216 -box 2.5 2.5 2.5 -o c.gro -p t.top; printf 'integrator=md\ndt=0.002\nnsteps=%s\ncoulombtype=PME\nrcoulomb=1.0\nrvdw=1.0\nconstraints=h-bonds\ntcoupl=v-rescale\ntc-grps=System\ntau-t=0.1\nref-t=300\ngen-vel=yes\ngen-temp=300\ngen-seed=1\nld-seed=1\nnstxout=100\nnstenergy=50\n' $N >m.mdp; gmx -quiet grompp -f m.mdp -c c.gro -p t.top -o t.tpr",
                "gmx -quiet mdrun -s t.tpr -ntmpi 1 -ntomp 2 -pin off -nb cpu -reprod -deffnm r >out 2>&1 && gmx -quiet dump -e r.edr 2>/dev/null >energies; rm -f r.log r.cpt r.edr out mdout.mdp t.tpr", 300),
    "lammps": ("lmp", "printf 'units lj\natom_style atomic\nlattice fcc 0.8442\nregion b block 0 8 0 8 0 8\ncreate_box 1 b\ncreate_atoms 1 box\nmass 1 1.0\nvelocity all create 3.0 87287\npair_style lj/cut 2.5\npair_coeff 1 1 1.0 1.0 2.5\nneighbor 0.3 bin\nfix 1 all nve\nthermo 20\ndump 1 all custom 100 d x y z\nrun %s\n' $N >in.lj", "lmp -in in.lj -log none | grep -E '^ +[0-9]+ +[0-9.-]+ ' >out", 300),
    "quantum-espresso": ("pw.x", "printf \"&input title='Si', zed=14., rel=1, config='[Ne] 3s2 3p2 3d-2', iswitch=3, dft='PZ' /\n&inputp pseudotype=1, file_pseudopw='Si.UPF', author='x', lloc=2, tm=.true. /\n3\n3S 1 0 2. 0. 2. 2. 0.\n3P 2 1 2. 0. 2. 2. 0.\n3D 3 2 -2. -.3 2. 2. 0.\n\" >ld1.in; ld1.x -in ld1.in >/dev/null; rm -f ld1* vx.pot; printf \"&control\n pseudo_dir='.'\n outdir='o'\n/\n&system\n ibrav=2, celldm(1)=10.2, nat=2, ntyp=1, ecutwfc=$N\n/\n&electrons\n/\nATOMIC_SPECIES\n Si 28.086 Si.UPF\nATOMIC_POSITIONS alat\n Si 0 0 0\n Si .25 .25 .25\nK_POINTS automatic\n 4 4 4 0 0 0\n\" >in",
                         "OMP_NUM_THREADS=2 pw.x -in in >all && grep -E 'total energy|^ +k =' all >out; rm -rf all o CRASH", 20),
    "nwchem": ("nwchem", "printf 'echo\nstart w\ngeometry\n O 0 0 0\n H 0 0 0.96\n H 0 0.93 -0.24\n H 3 0 0\n F 3 0.92 0\nend\nbasis\n * library 6-311G**\nend\nscf\n thresh 1e-%s\nend\ntask scf optimize\n' 8 >in.nw", "nwchem in.nw >all 2>err; grep -E 'Total SCF energy|^@' all | awk '{print $1, $2, $3, $4}' >out; test -s out && rm -f all err w.*", 1),
    "cp2k": ("cp2k", "printf '&GLOBAL\n PROJECT p\n RUN_TYPE MD\n PRINT_LEVEL LOW\n&END\n&MOTION\n &MD\n  STEPS %s\n &END\n&END\n&FORCE_EVAL\n METHOD QS\n &DFT\n  BASIS_SET_FILE_NAME BASIS_MOLOPT\n  POTENTIAL_FILE_NAME GTH_POTENTIALS\n  &MGRID\n   CUTOFF 120\n  &END\n  &XC\n   &XC_FUNCTIONAL PADE\n   &END\n  &END\n &END\n &SUBSYS\n  &CELL\n   ABC 6 6 6\n  &END\n  &COORD\n   H 0 0 0\n   H 0 0 0.74\n  &END\n  &KIND H\n   BASIS_SET DZVP-MOLOPT-SR-GTH\n   POTENTIAL GTH-PADE-q1\n  &END\n &END\n&END\n' $N >in", "OMP_NUM_THREADS=2 cp2k in >all 2>&1; tail -n +2 p-1.ener | awk '{print $1, $2, $3, $4, $5}' >out; test -s out && rm -f all p-*", 3),
    "octave": ("octave-cli", "", "octave-cli --quiet --eval \"rand('twister', 1); a = rand(200); s = 0; for i = 1:$N; [q, r] = qr(a + i); s = s + sum(abs(diag(r))); a = q; end; printf('%.10g\\n', s); save('-text', 'a.txt', 'a');\" && sed -i 1d a.txt", 100),
    "R": ("R", "", "R --vanilla --slave -e \"set.seed(1); s <- 0; for (i in 1:$N) { d <- data.frame(x = rnorm(2000), y = rnorm(2000)); s <- s + coef(lm(y ~ x + I(x^2), d))[2] }; cat(format(s, digits = 12), '\\n'); write.csv(d, 'd.csv')\"", 200),
    "numpy": ("python3", "", "python3 -c \"import numpy as n; r = n.random.default_rng(1); a = r.random((200, 200)); s = 0\nfor i in range($N): u, d, v = n.linalg.svd(a); s += d.sum(); a = u @ v + n.diag(d) / 10\nprint(repr(s)); n.save('a.npy', a)\"", 60),
    "gdal": ("gdalwarp gdal_translate gdaldem", "python3 -c \"import sys, random; random.seed(1); n = $N; print('ncols', n); print('nrows', n); print('xllcorner 10\\nyllcorner 50\\ncellsize 0.001')\nfor i in range(n): print(' '.join(str((i * j) % 971 + random.randrange(9)) for j in range(n)))\" >a.asc",
             "gdal_translate -q -a_srs EPSG:4326 -of GTiff -co COMPRESS=DEFLATE a.asc a.tif && gdalwarp -q -multi -wo NUM_THREADS=2 -t_srs EPSG:3857 -r cubic a.tif b.tif && gdaldem hillshade -q b.tif c.tif && gdal_translate -q -of PNG c.tif c.png", 600),
    "blast": ("makeblastdb blastn", "python3 -c \"import random; random.seed(1)\ng = ''.join(random.choice('ACGT') for _ in range(1000000))\nopen('g.fa', 'w').write('>g\\n' + g + '\\n')\nq = open('q.fa', 'w')\nfor i in range($N):\n p = random.randrange(990000); q.write(f'>q{i}\\n' + ''.join(c if random.random() > .05 else random.choice('ACGT') for c in g[p:p + 2000]) + '\\n')\"",
              "makeblastdb -in g.fa -dbtype nucl -out db >/dev/null && blastn -db db -query q.fa -outfmt 6 -num_threads 2 -word_size 7 -out out && rm db.*", 20),
    "bwa-samtools": ("bwa samtools", "python3 -c \"import random; random.seed(1)\ng = ''.join(random.choice('ACGT') for _ in range(500000))\nopen('g.fa', 'w').write('>g\\n' + g + '\\n')\nq = open('q.fq', 'w')\nfor i in range($N):\n p = random.randrange(499000); q.write(f'@q{i}\\n' + ''.join(c if random.random() > .03 else random.choice('ACGT') for c in g[p:p + 150]) + '\\n+\\n' + 'I' * 150 + '\\n')\"",
                     "set -o pipefail; bwa index g.fa 2>/dev/null && bwa mem -t 2 g.fa q.fq 2>/dev/null | samtools sort --no-PG -@ 2 -O bam -o a.bam - 2>/dev/null && samtools view a.bam | sha256sum && samtools depth a.bam >depth && rm a.bam", 5000),
    "povray": ("povray", "(echo '#version 3.7; global_settings { assumed_gamma 1 } camera { location <0, 2, -6> look_at 0 } light_source { <5, 9, -9> 1 }'; for i in $(seq $N); do echo \"sphere { <$((i % 7)) - 3, $((i % 5)) - 2, $((i % 11))>, 0.6 pigment { rgb <0.$((i % 10)), 0.5, 0.9> } finish { reflection 0.4 } }\"; done; echo 'plane { y, -3 pigment { checker rgb 1 rgb 0 } }') >a.pov",
               "povray -D +Ia.pov +Oa.png +W400 +H300 +A0.1 +WT2 -GA >out 2>&1; rm out; python3 -c \"import zlib, struct; d = open('a.png', 'rb').read(); i = 8; z = b''\nwhile i < len(d):\n n, = struct.unpack('>I', d[i:i + 4]); z += d[i + 8:i + 8 + n] if d[i + 4:i + 8] == b'IDAT' else b''; i += n + 12\nopen('a.raw', 'wb').write(zlib.decompress(z))\" && rm a.png", 100),
    "blender": ("blender", "printf \"import bpy\nfor i in range(40): bpy.ops.mesh.primitive_monkey_add(location=(i %% 5 - 2, i // 5 - 4, i %% 3))\ns = bpy.context.scene\ns.render.engine = 'CYCLES'; s.cycles.samples = $N; s.cycles.use_denoising = False; s.render.resolution_x = 160; s.render.resolution_y = 120; s.render.threads_mode = 'FIXED'; s.render.threads = 2\ns.render.filepath = '//o.bmp'; s.render.image_settings.file_format = 'BMP'; s.render.filepath = __import__('os').getcwd() + '/o.bmp'\nbpy.ops.render.render(write_still=True)\n\" >p.py",
                "blender -b --factory-startup -noaudio -P p.py >out 2>&1; tail -3 out >last; rm out last; test -s o.bmp", 8),
    "x264": ("x264 ffmpeg", "ffmpeg -nostdin -loglevel error -f lavfi -i testsrc2=duration=$N:size=320x240:rate=25 -pix_fmt yuv420p a.y4m", "x264 --quiet --threads 1 --preset slow -o a.264 a.y4m 2>/dev/null", 10),
    "gnuplot": ("gnuplot", "", "gnuplot -e \"set terminal svg size 400,300; set isosamples 60; do for [i=1:$N] { set output sprintf('p%d.svg', i % 4); splot sin(x * i / 10.0) * cos(y) with lines }\"", 40),
    "bc": ("bc", "", "echo \"scale=$N; 4*a(1)\" | bc -l", 2000),
    "sox": ("sox", "", "sox -R -n -r 48000 a.wav synth $N sine 300-3300 reverb 2>/dev/null && sox -R a.wav b.flac rate -v 44100 pitch 200 2>/dev/null", 40),
    "imagemagick": ("convert", "", "convert -limit thread 2 -seed 1 -size ${N}x$N plasma:fractal -blur 0x8 -paint 3 -define png:exclude-chunks=date,time a.png && convert a.png -rotate 33 -resize 50% b.ppm && rm a.png", 500),
    "ghostscript": ("gs", "(echo '%!PS'; for i in $(seq $N); do echo \"/Times-Roman findfont $((i % 40 + 5)) scalefont setfont 0 1 200 { dup 3 mul exch 4 mul moveto (page $i) true charpath stroke } for showpage\"; done) >a.ps", "gs -q -dBATCH -dNOPAUSE -sDEVICE=pgmraw -r100 -sOutputFile=p.pgm a.ps && sha256sum p.pgm", 10),
    "pandoc": ("pandoc", "for i in $(seq $N); do printf \"# Part $i\n\n- *a* **b** [c](d$i)\n- \\$x^$i\\$\n\n| a | b |\n|---|---|\n| $i | 2 |\n\n\"; done >a.md", "pandoc a.md -s --metadata title=t -o a.html && pandoc a.md -t latex -o a.tex && pandoc a.md -o a.rst", 400),
    "openscad": ("openscad", "echo 'difference() { union() { for (i = [0:'$N']) translate([i, i % 3, 0]) sphere(2, $fn = 20); } cylinder(40, 1, 1, $fn = 30); }' >a.scad", "openscad -o a.stl a.scad 2>/dev/null; sort a.stl >b; rm a.stl", 4),
}

LEARNING = {
    "torch": ("python3 py:torch", "", "python3 -c \"import torch; torch.manual_seed(1); torch.set_num_threads(2)\nm = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)); o = torch.optim.Adam(m.parameters())\nx = torch.randn(512, 64); y = torch.randint(0, 10, (512,))\nfor i in range($N):\n  o.zero_grad(); l = torch.nn.functional.cross_entropy(m(x), y); l.backward(); o.step()\n  if i % 50 == 0: print(i, repr(l.item()), flush=True)\nprint(repr(l.item()))\"", 200),
    "torch-loader": ("python3 py:torch", "", "python3 -c \"import torch; from torch.utils.data import DataLoader, TensorDataset\ntorch.manual_seed(1); d = TensorDataset(torch.randn(2000, 32), torch.randn(2000, 1)); m = torch.nn.Linear(32, 1); o = torch.optim.SGD(m.parameters(), 0.01)\nfor e in range($N):\n  s = 0.0\n  for x, y in DataLoader(d, 50, shuffle=True, num_workers=2): o.zero_grad(); l = ((m(x) - y) ** 2).mean(); l.backward(); o.step(); s += l.item()\n  print(e, repr(s), flush=True)\"", 5),
    "sklearn": ("python3 py:sklearn", "", "python3 -c \"from sklearn.ensemble import RandomForestClassifier as F; from sklearn.datasets import make_classification as c; from sklearn.model_selection import cross_val_score as v\nx, y = c(1500, 20, random_state=1); print(v(F($N, random_state=1), x, y, cv=6, n_jobs=2).tolist())\"", 60),
    "xgboost": ("python3 py:xgboost", "", "python3 -c \"import xgboost as b, numpy as n; r = n.random.default_rng(1); x = r.random((4000, 20)); y = (x.sum(1) + r.random(4000) > 10.5) * 1\nm = b.train(dict(objective='binary:logistic', nthread=2, seed=1), b.DMatrix(x, y), $N); print(repr(float(m.predict(b.DMatrix(x)).sum())))\"", 60),
    "dask": ("python3 py:distributed", "", "python3 -c \"\nimport dask.array as a\nfrom distributed import Client, LocalCluster\nif __name__ == '__main__':\n  with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as c, Client(c) as k:\n    x = a.random.RandomState(1).random((3000, 3000), chunks=500)\n    for i in range($N): print(i, round(float((x @ x.T + i).sum().compute()), 3), flush=True)\" 2>/dev/null", 3),
    "jupyter": ("jupyter-nbconvert py:ipykernel", "python3 -c \"import json; json.dump(dict(nbformat=4, nbformat_minor=5, metadata=dict(kernelspec=dict(name='python3', display_name='p', language='python')), cells=[dict(id=f'c{i}', cell_type='code', metadata={}, outputs=[], execution_count=None, source=f's = globals().get(\\'s\\', 0)\\nfor j in range(200000): s += j % {i + 2}\\nprint(s)') for i in range($N)]), open('a.ipynb', 'w'))\"",
                "jupyter-nbconvert --to notebook --execute a.ipynb --output b.ipynb 2>/dev/null; python3 -c \"import json; print([c['outputs'][0]['text'] for c in json.load(open('b.ipynb'))['cells']])\"; rm -rf b.ipynb .local .ipython .jupyter", 20),
}

JAVA_AND_JAVASCRIPT = {
    "ant": ("ant javac", "mkdir src; for i in $(seq $N); do echo \"public class C$i { int f(int x) { return x * $i; } }\" >src/C$i.java; done; echo '<project default=\"jar\"><target name=\"jar\"><mkdir dir=\"b\"/><javac srcdir=\"src\" destdir=\"b\" includeantruntime=\"false\"/><zip destfile=\"p.zip\" basedir=\"b\"/></target></project>' >build.xml", "ant -q | grep -c SUCC; rm p.zip", 300),
    "groovy": ("groovy", "echo 'def m = [:]; ('$N').times { i -> m[i % 1000] = (m[i % 1000] ?: 0) + (i.toString().reverse() as BigInteger) }; println m.values().sum()' >a.groovy", "groovy a.groovy; rm -rf .groovy .java", 100000),
    "npm": ("npm node", "mkdir -p a b; for i in $(seq $N); do mkdir -p l$i; echo \"{\\\"name\\\": \\\"l$i\\\", \\\"version\\\": \\\"1.0.0\\\"}\" >l$i/package.json; head -c 3000 /dev/zero >l$i/z; (cd l$i && tar czf ../l$i.tgz --mtime=@0 --transform 's,^,package/,' package.json z); rm -r l$i; done; python3 -c \"import json; json.dump(dict(name='p', version='1.0.0', dependencies={f'l{i}': f'file:l{i}.tgz' for i in range(1, $N + 1)}), open('package.json', 'w'))\"",
            "npm install --offline --no-audit --no-fund --loglevel=error --cache=$PWD/.c >/dev/null; rm -rf .c .npm node_modules/.package-lock.json; ls node_modules | wc -l", 150),
}

MACHINES = {
    "qemu-user": ("qemu-x86_64", "", "qemu-x86_64 -U LD_PRELOAD /usr/bin/python3 -S -c \"import hashlib, threading\nr = {}\ndef f(k):\n  h = b'x' * 100\n  for i in range($N): h = hashlib.sha256(h + bytes([k])).digest()\n  r[k] = h.hex()\nt = [threading.Thread(target=f, args=(k,)) for k in range(3)]\nfor x in t: x.start()\nfor x in t: x.join()\nprint(sorted(r.items()))\"", 3000),
    "qemu-user-arm": ("qemu-aarch64 aarch64-linux-gnu-gcc", "printf '#include <stdio.h>\nint main(void) { unsigned s = 1; for (unsigned i = 0; i < %su; i++) s = s * 1103515245 + i; printf(\"%%%%u\\\\n\", s); }\n' $N >a.c; aarch64-linux-gnu-gcc -static -O0 a.c -o a", "qemu-aarch64 ./a", 100000000),
}

OTHERS = {
    "git-gc": ("git", "git init -q r; cd r; git config user.name x; git config user.email x@y; git config gc.auto 0; python3 -c \"import sys, random; random.seed(1); n = $N\nfor i in range(n):\n t = f'commit {i}'\n print(f'commit refs/heads/main\\ncommitter x <x@y> {1700000000 + i} +0000\\ndata {len(t)}\\n{t}')\n for k in range(3):\n  d = ''.join(f'{random.randrange(99)} line {j} {i if j % 7 == i % 7 else 0}\\n' for j in range(300))\n  print(f'M 644 inline f{(i + k) % 40}\\ndata {len(d)}\\n{d}')\" | git fast-import --quiet",
               "cd r && git -c pack.threads=1 repack -q -a -d -f --depth=50 --window=50 && git gc -q && git fsck --full 2>&1 | tail -1; git rev-parse main; git count-objects | head -1; cd .. && rm -rf r", 200),
    "rsync": ("rsync", "mkdir a b; for i in $(seq $N); do head -c 200000 /dev/urandom >a/f$i; done; find a -exec touch -d @1700000000 {} +", "rsync -a --checksum --bwlimit=20000 a/ b/ && diff -r a b && echo same; rm -r a b", 100),
    "tar-xz": ("tar xz", "mkdir a; for i in $(seq $N); do seq $i 20000 >a/f$i; done; find a -exec touch -d @1700000000 {} +", "tar c --sort=name --owner=0 --group=0 a | xz -T2 -6 >a.tar.xz && xz -dc a.tar.xz | tar t | wc -l", 60),
    "zstd": ("zstd", "for i in $(seq $N); do seq $i 30000; done >a", "zstd -q -T2 -19 a -o a.zst && zstd -q -dc a.zst | sha256sum", 60),
    "7z": ("7z", "mkdir a; for i in $(seq $N); do seq $i 20000 >a/f$i; done", "7z a -bd -mmt=2 -mtm=off a.7z a >/dev/null && 7z x -so a.7z | sha256sum; rm a.7z", 60),
    "borg": ("borg", "mkdir a; for i in $(seq $N); do head -c 300000 /dev/urandom >a/f$i; done", "export BORG_BASE_DIR=$PWD/base BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes; borg init -e none r && borg create -C zstd,9 r::x a && borg check r && mkdir o && cd o && borg extract ../r::x && diff -r a ../a && echo same; cd ..; rm -rf r o base a", 150),
    "sqlite-import": ("sqlite3", "python3 -c \"import random; random.seed(1)\nfor i in range($N): print(i, random.random(), random.choice('abc') * 20, sep=',')\" >a.csv", "sqlite3 d 'create table t(a, b, c); create index i on t(c, b);' && sqlite3 d '.mode csv' '.import a.csv t' 'select c, count(*), round(sum(b), 3) from t group by c;' 'vacuum;' && sqlite3 d .dump | sha256sum && rm d", 100000),
    "sort-join": ("sort join", "python3 -c \"import random; random.seed(1)\nfor f in 'ab':\n o = open(f, 'w')\n for i in range($N): o.write(f'{random.randrange($N)} {random.random()}\\n')\"", "sort -S 5M --parallel=2 a >as; sort -S 5M b >bs; join as bs | sort -n | uniq -c | sha256sum", 100000),
    "dpkg-deb": ("dpkg-deb", "mkdir -p p/DEBIAN p/usr; printf 'Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n' >p/DEBIAN/control; for i in $(seq $N); do seq $i 20000 >p/usr/f$i; done", "SOURCE_DATE_EPOCH=0 dpkg-deb --root-owner-group -b p a.deb >/dev/null && dpkg-deb -c a.deb | wc -l", 100),
    "doxygen": ("doxygen", "for i in $(seq $N); do printf \"/** Class $i. */\nclass C$i : public C$((i / 2)) {\npublic:\n  /** Does $i. @param x what */\n  int f(int x);\n};\n\" >c$i.h; done; printf 'HAVE_DOT=NO\nGENERATE_LATEX=NO\nQUIET=YES\nHTML_TIMESTAMP=NO\nWARNINGS=NO\nEXTRACT_ALL=YES\n' >Doxyfile", "doxygen Doxyfile 2>/dev/null >/dev/null; find html -name 'class*.html' | wc -l; rm -rf html", 100),
    "libreoffice": ("soffice", "python3 -c \"for i in range($N): print(i, i * i % 97, f'word {i}', sep=',')\" >a.csv", "soffice --headless -env:UserInstallation=file://$PWD/lo --convert-to fods a.csv >/dev/null 2>&1; soffice --headless -env:UserInstallation=file://$PWD/lo --convert-to html a.fods >/dev/null 2>&1; grep -c word a.html; rm -rf lo a.fods a.html .cache .config", 5000),
    "gimp": ("gimp", "", "HOME=$PWD gimp -i -d -f --batch-interpreter=plug-in-script-fu-eval -b '(let* ((i (car (gimp-image-new 600 600 RGB))) (l (car (gimp-layer-new i 600 600 RGB \"l\" 100 0)))) (gimp-image-insert-layer i l 0 0) (plug-in-plasma 1 i l 7 3.0) (plug-in-gauss 1 i l 40 40 0) (plug-in-oilify 1 i l 8 0) (file-ppm-save 1 i l \"a.ppm\" \"a.ppm\" 1) (gimp-quit 0))' >/dev/null 2>&1; sed -i 2d a.ppm; rm -rf .config .cache .local; test -s a.ppm", 1),
    "inkscape": ("inkscape", "(echo '<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"800\" height=\"800\">'; for i in $(seq $N); do echo \"<circle cx=\\\"$((i * 7 % 800))\\\" cy=\\\"$((i * 13 % 800))\\\" r=\\\"$((i % 60))\\\" fill=\\\"#$((i % 9))$((i % 7))8\\\" opacity=\\\"0.5\\\"/>\"; done; echo '</svg>') >a.svg", "HOME=$PWD inkscape a.svg --export-type=png -o a.png 2>/dev/null; HOME=$PWD inkscape a.svg --export-plain-svg -o b.svg 2>/dev/null; rm -rf .config .cache .local; test -s a.png", 3000),
    "dot": ("dot", "(echo 'digraph g {'; for i in $(seq $N); do echo \"n$i -> n$((i / 3)); n$i -> n$((i / 2));\"; done; echo '}') >a.dot", "dot -Tsvg a.dot -o a.svg", 200),
}
TABLES = (COMPILERS, SCIENCE, LEARNING, JAVA_AND_JAVASCRIPT, MACHINES, OTHERS)


def present(tool):
    """A command, or py:MODULE: a module of Python's."""
    if tool.startswith("py:"):
        return subprocess.run(["python3", "-c", f"import {tool[3:]}"], stderr=subprocess.DEVNULL, check=False).returncode == 0
    return shutil.which(tool)


def one(t, name):
    tools, fill, command, size = next(entries[name] for entries in TABLES if name in entries)
    # Debian's programs before others of the same name.
    os.environ["PATH"] = t.env["PATH"] = "/usr/bin:/bin:" + t.env["PATH"] + ":/usr/games:/usr/sbin"
    for variable in ("PYTHONPATH", "LD_LIBRARY_PATH"):  # of what is installed beside Debian's own
        if "CAIRN_TEST_" + variable in os.environ:
            os.environ[variable] = t.env[variable] = os.environ["CAIRN_TEST_" + variable]
    for tool in tools.split():
        if not present(tool):
            raise Skip(f"{tool.removeprefix('py:')} isn't installed")
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    surroundings = {"HOME": t.work, "TMPDIR": os.path.join(t.work, "tmp"), "CCACHE_DISABLE": "1", "TERM": "dumb"}

    def prepare(folder, scale=1):
        os.mkdir(os.path.join(folder, "tmp"))
        filled = subprocess.run(["bash", "-c", fill], cwd=folder, env={**os.environ, **surroundings, "N": str(scale), "CAIRN_SOURCE": source},
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        if filled.returncode:
            raise Failure(f"{name} could not be prepared: {filled.stderr[-1000:].decode(errors='replace')}")

    def words(scale):
        return ["env", f"N={scale}", "bash", "-c", f"{command}; code=$?; rm -rf tmp; exit $code"]

    same_as_undisturbed(t, words, prepare=prepare, scale=size, seconds=20.0 if t.arguments.witness else 4.0, timeout=900, at_once=True, env=surroundings, lines_only=True)


def test(t):
    if len(t.arguments.names) == 1:
        return one(t, t.arguments.names[0])
    return table.each(t, __file__, t.arguments.names or [name for entries in TABLES for name in entries])
