//! The constraint system that a circuit is synthesised into for proving.
//!
//! a, b and c (the evaluations of the constraint polynomials) grow in step, one element a constraint; the auxiliary
//! assignment (the witness) grows by itself. Each of the two groups is either over registered blocks or on the heap, and
//! moves as a whole:
//!
//! ```text
//!   full ──► grow in place ──no──► larger registered blocks ──no──► heap
//! ```
//!
//! Never the global allocator on a registered pointer, never a lost element. What happened is counted in [`Growths`].

use std::fmt;

use ec_gpu_gen::multiexp_cpu::DensityTracker;
use ff::PrimeField;
use pinned_alloc::{AllocError, Residency};
use upstream::{ConstraintSystem, Index, LinearCombination, SynthesisError, Variable};

use crate::lc;
use crate::memory::{layout_for, PinnedBacking, PinnedVec};

/// Elements of a first block when nothing is known about the circuit.
const FIRST_CAPACITY: usize = 1 << 12;
/// A full block grows by an eighth, but at least by this many elements (2 MiB of 32-byte scalars).
const LEAST_STEP: usize = 1 << 16;

/// The size of a synthesised circuit, in elements. Also a guess of it, made before the synthesis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Constraints, with the one that the prover adds for each input: the length of a, b and c.
    pub constraints: usize,
    /// Input variables, with the constant one.
    pub inputs: usize,
    /// Auxiliary variables.
    pub aux: usize,
}

impl Shape {
    /// The size of the evaluation domain: the least power of two that holds the constraints. 1 for an empty circuit.
    ///
    /// Saturates at the largest power of two.
    pub fn domain_size(&self) -> usize {
        self.constraints.checked_next_power_of_two().unwrap_or(1 << (usize::BITS - 1))
    }
}

/// How often vectors had to grow beyond what the [`Shape`] guess had promised. Zero with an exact guess.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Growths {
    /// Registered blocks grown where they were.
    pub in_place: u32,
    /// Vectors copied into larger registered blocks.
    pub moved: u32,
    /// Vectors copied to the heap, because no registered memory was to be had.
    pub to_heap: u32,
}

/// Where a, b, c and the witness live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placement {
    /// The registered allocator that a, b and c came from; `None` on the heap.
    pub abc_allocator: Option<&'static str>,
    /// What kind of memory holds a, b and c: the weakest of the three.
    pub abc_residency: Residency,
    /// Bytes held for a, b and c together.
    pub abc_bytes: usize,
    /// The registered allocator that the witness came from; `None` on the heap.
    pub aux_allocator: Option<&'static str>,
    /// What kind of memory holds the witness.
    pub aux_residency: Residency,
    /// Bytes held for the witness.
    pub aux_bytes: usize,
    /// Growth during the synthesis.
    pub growths: Growths,
}

/// A circuit with its witness, synthesised: the input of every prover.
///
/// [`synthesize`](super::synthesize) makes one over registered memory; [`ConstraintSystem::new`] makes one on the heap,
/// because circuits create children that way for parallel synthesis and [`extend`](ConstraintSystem::extend) the root
/// with them. Memory goes back when it is dropped, or earlier by [`release_abc`](Self::release_abc).
pub struct ProvingAssignment<Scalar: PrimeField> {
    // Which variables have a base in the A and B queries.
    a_aux_density: DensityTracker,
    b_input_density: DensityTracker,
    b_aux_density: DensityTracker,

    // Evaluations of the constraint polynomials: always of one length, and in one kind of memory.
    a: PinnedVec<Scalar>,
    b: PinnedVec<Scalar>,
    c: PinnedVec<Scalar>,
    // Their common length; stays when they are released.
    constraints: usize,

    input_assignment: Vec<Scalar>,
    aux_assignment: PinnedVec<Scalar>,

    growths: Growths,
    // Why vectors are on the heap although registered memory was asked for.
    refusal: Option<AllocError>,
}

impl<Scalar: PrimeField> ProvingAssignment<Scalar> {
    /// An empty assignment on the heap, with room for `shape`.
    pub(crate) fn on_heap(shape: Shape) -> Self {
        let mut this = Self::new();
        this.a = PinnedVec::with_heap_capacity(shape.constraints);
        this.b = PinnedVec::with_heap_capacity(shape.constraints);
        this.c = PinnedVec::with_heap_capacity(shape.constraints);
        this.aux_assignment = PinnedVec::with_heap_capacity(shape.aux);
        this
    }

    /// An empty assignment over registered blocks with room for `shape` (a little, if that is not known): one set, all
    /// four blocks or none.
    ///
    /// # Errors
    /// What the registered allocator answers.
    pub(crate) fn over_registered(shape: Option<Shape>) -> Result<Self, AllocError> {
        let (abc, aux) = match shape {
            Some(shape) => (shape.constraints.max(1), shape.aux.max(1)),
            None => (FIRST_CAPACITY, FIRST_CAPACITY),
        };
        let abc = layout_for::<Scalar>(abc)?;
        let [a, b, c, aux] = pinned_alloc::allocate([abc, abc, abc, layout_for::<Scalar>(aux)?])?;
        let mut this = Self::new();
        this.a = PinnedVec::over(a);
        this.b = PinnedVec::over(b);
        this.c = PinnedVec::over(c);
        this.aux_assignment = PinnedVec::over(aux);
        Ok(this)
    }

    /// Notes why the assignment is not in registered memory.
    pub(crate) fn set_refusal(&mut self, refusal: AllocError) {
        self.refusal = Some(refusal);
    }

    /// Why vectors are on the heap although registered memory was asked for, if so.
    pub fn refusal(&self) -> Option<&AllocError> {
        self.refusal.as_ref()
    }

    /// Number of constraints, input and auxiliary variables.
    pub fn shape(&self) -> Shape {
        Shape {
            constraints: self.constraints,
            inputs: self.input_assignment.len(),
            aux: self.aux_assignment.len(),
        }
    }

    /// Evaluations of the A polynomial, one a constraint; empty once [released](Self::release_abc). [`slice::as_ptr`]
    /// gives the pointer for a device copy: with a registered allocator it is one region.
    pub fn a(&self) -> &[Scalar] {
        self.a.as_slice()
    }

    /// Evaluations of the B polynomial, as [`a`](Self::a).
    pub fn b(&self) -> &[Scalar] {
        self.b.as_slice()
    }

    /// Evaluations of the C polynomial, as [`a`](Self::a).
    pub fn c(&self) -> &[Scalar] {
        self.c.as_slice()
    }

    /// Values of the input variables, the constant one first.
    pub fn input_assignment(&self) -> &[Scalar] {
        &self.input_assignment
    }

    /// Values of the auxiliary variables: the witness, a secret.
    pub fn aux_assignment(&self) -> &[Scalar] {
        self.aux_assignment.as_slice()
    }

    /// Which auxiliary variables have a base in the A query.
    pub fn a_aux_density(&self) -> &DensityTracker {
        &self.a_aux_density
    }

    /// Which input variables have a base in the B queries.
    pub fn b_input_density(&self) -> &DensityTracker {
        &self.b_input_density
    }

    /// Which auxiliary variables have a base in the B queries.
    pub fn b_aux_density(&self) -> &DensityTracker {
        &self.b_aux_density
    }

    /// The registered blocks under a, b, c and the witness, where there are any.
    pub fn backings(&self) -> [Option<&PinnedBacking>; 4] {
        [self.a.backing(), self.b.backing(), self.c.backing(), self.aux_assignment.backing()]
    }

    /// Where the vectors live now.
    pub fn placement(&self) -> Placement {
        let abc = [&self.a, &self.b, &self.c];
        let residency =
            |vec: &PinnedVec<Scalar>| vec.backing().map_or(Residency::Pageable, |b| b.residency());
        let strength = |residency: &Residency| match residency {
            Residency::Pinned => 2,
            Residency::Locked => 1,
            _ => 0,
        };
        let bytes = |vec: &PinnedVec<Scalar>| {
            vec.backing().map_or(vec.capacity() * size_of::<Scalar>(), |backing| backing.size())
        };
        Placement {
            abc_allocator: self.a.backing().map(|backing| backing.allocator()),
            abc_residency: abc.map(residency).into_iter().min_by_key(strength).unwrap_or(Residency::Pageable),
            abc_bytes: abc.map(bytes).into_iter().sum(),
            aux_allocator: self.aux_assignment.backing().map(|backing| backing.allocator()),
            aux_residency: residency(&self.aux_assignment),
            aux_bytes: bytes(&self.aux_assignment),
            growths: self.growths,
        }
    }

    /// Appends a copy of `other` to an assignment that is empty.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        debug_assert!(self.constraints == 0 && self.input_assignment.is_empty());
        let (constraints, aux) = (other.a.len(), other.aux_assignment.len());
        if self.abc_capacity() < constraints {
            self.grow_abc(constraints);
        }
        if self.aux_assignment.capacity() < aux {
            self.grow_aux(aux);
        }
        self.a.extend_from_slice(other.a.as_slice());
        self.b.extend_from_slice(other.b.as_slice());
        self.c.extend_from_slice(other.c.as_slice());
        self.constraints = constraints;
        self.aux_assignment.extend_from_slice(other.aux_assignment.as_slice());
        self.input_assignment.clone_from(&other.input_assignment);
        self.a_aux_density = other.a_aux_density.clone();
        self.b_input_density = other.b_input_density.clone();
        self.b_aux_density = other.b_aux_density.clone();
    }

    /// Gives the memory of a, b and c back, now. Done as soon as the last reader is through with them; a second call
    /// does nothing. The witness stays.
    pub fn release_abc(&mut self) {
        self.a.release();
        self.b.release();
        self.c.release();
    }

    /// The registered blocks, for whoever keeps them from being reused: a device that failed may still read them. Vectors on
    /// the heap are leaked for the same reason.
    pub fn into_blocks(self) -> Vec<pinned_alloc::Block> {
        let Self { a, b, c, aux_assignment, .. } = self;
        [a, b, c, aux_assignment].into_iter().filter_map(PinnedVec::into_block).collect()
    }

    /// Checks that a, b and c are still there, for a prover that is about to read them.
    pub(crate) fn check_whole(&self) -> Result<(), SynthesisError> {
        if self.a.len() == self.constraints {
            return Ok(());
        }
        Err(SynthesisError::IncompatibleLengthVector(format!(
            "a, b and c have {} elements for {} constraints: their memory was given back before the proof",
            self.a.len(),
            self.constraints
        )))
    }

    /// Synthesis is over: every registered block becomes one region that a device can copy in one call.
    pub(crate) fn seal(&mut self) {
        for vec in [&mut self.a, &mut self.b, &mut self.c, &mut self.aux_assignment] {
            if let Err(error) = vec.seal() {
                log::warn!("a proving vector is not page-locked any more: {error}");
                self.refusal = Some(error);
            }
        }
    }

    /// Makes room for a, b and c to be extended to the size of the evaluation domain, as a CPU prover does it in place.
    /// Whoever proves on the CPU calls it before the placement is reported; a second call does nothing.
    pub fn reserve_domain(&mut self) {
        let domain_size = self.shape().domain_size();
        if self.abc_capacity() < domain_size && self.a.len() == self.constraints {
            self.make_room_abc(domain_size - self.a.len(), 0);
        }
    }

    /// Extends a, b and c by zeros to the size of the evaluation domain and lends them for work in place, with the
    /// witness. Contents are the borrower's business from then on.
    pub(crate) fn padded_abc(&mut self) -> [&mut PinnedVec<Scalar>; 3] {
        let domain_size = self.shape().domain_size();
        self.reserve_domain();
        let abc = [&mut self.a, &mut self.b, &mut self.c];
        abc.map(|vec| {
            vec.fill_to(domain_size, Scalar::ZERO);
            vec
        })
    }

    /// The witness, for work in place.
    pub(crate) fn aux_mut(&mut self) -> &mut [Scalar] {
        self.aux_assignment.as_mut_slice()
    }

    fn abc_capacity(&self) -> usize {
        self.a.capacity().min(self.b.capacity()).min(self.c.capacity())
    }

    #[cold]
    fn grow_abc(&mut self, additional: usize) {
        let len = self.a.len();
        self.make_room_abc(additional, step(len));
    }

    /// Makes room for `needed` more elements in a, b and c, and for `spare` if that is cheap.
    fn make_room_abc(&mut self, needed: usize, spare: usize) {
        make_room(
            [&mut self.a, &mut self.b, &mut self.c],
            needed,
            spare,
            &mut self.growths,
            &mut self.refusal,
        );
    }

    #[cold]
    fn grow_aux(&mut self, additional: usize) {
        let spare = step(self.aux_assignment.len());
        make_room([&mut self.aux_assignment], additional, spare, &mut self.growths, &mut self.refusal);
    }

    /// Appends to the witness.
    #[inline(always)]
    fn push_aux(&mut self, value: Scalar) {
        if self.aux_assignment.len() == self.aux_assignment.capacity() {
            self.grow_aux(1);
        }
        self.aux_assignment.push(value);
    }
}

/// How much more than needed a full block grows by.
fn step(len: usize) -> usize {
    (len / 8).max(LEAST_STEP)
}

/// Makes room for `needed` more elements in each vector (they have one length), and for `spare` if that is cheap.
fn make_room<T: Copy, const N: usize>(
    mut vecs: [&mut PinnedVec<T>; N],
    needed: usize,
    spare: usize,
    growths: &mut Growths,
    refusal: &mut Option<AllocError>,
) {
    let len = vecs[0].len();
    let needed = len + needed;
    if vecs[0].backing().is_none() {
        // An ordinary, amortised `reserve`, which counts as no growth.
        for vec in vecs {
            vec.reserve_on_heap(needed);
        }
        return;
    }
    // A partial success is kept: the vectors are only compared by their least capacity.
    let mut in_place = |vec: &mut PinnedVec<T>, capacity: usize| {
        if vec.capacity() >= capacity {
            return true;
        }
        let grown = vec.grow_in_place(capacity).is_ok();
        growths.in_place += u32::from(grown);
        grown
    };
    for capacity in [needed + spare, needed] {
        if vecs.iter_mut().all(|vec| in_place(vec, capacity)) {
            return;
        }
    }
    // The blocks cannot grow where they are. Old and new exist side by side while the elements move.
    let moved = layout_for::<T>(needed.max(len + len / 2) + spare)
        .and_then(|layout| pinned_alloc::allocate([layout; N]));
    match moved {
        Ok(blocks) => {
            for (vec, block) in vecs.iter_mut().zip(blocks) {
                vec.move_to(block);
                growths.moved += 1;
            }
        }
        Err(error) => {
            log::warn!("{N} proving vectors of {needed} elements move to the heap: {error}");
            *refusal = Some(error);
            for vec in &mut vecs {
                vec.move_to_heap(needed + spare);
                growths.to_heap += 1;
            }
        }
    }
}

impl<Scalar: PrimeField> ConstraintSystem<Scalar> for ProvingAssignment<Scalar> {
    type Root = Self;

    fn new() -> Self {
        Self {
            a_aux_density: DensityTracker::new(),
            b_input_density: DensityTracker::new(),
            b_aux_density: DensityTracker::new(),
            a: PinnedVec::new(),
            b: PinnedVec::new(),
            c: PinnedVec::new(),
            constraints: 0,
            input_assignment: Vec::new(),
            aux_assignment: PinnedVec::new(),
            growths: Growths::default(),
            refusal: None,
        }
    }

    fn alloc<F, A, AR>(&mut self, _: A, f: F) -> Result<Variable, SynthesisError>
    where
        F: FnOnce() -> Result<Scalar, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        let value = f()?;
        self.push_aux(value);
        self.a_aux_density.add_element();
        self.b_aux_density.add_element();
        Ok(Variable::new_unchecked(Index::Aux(self.aux_assignment.len() - 1)))
    }

    fn alloc_input<F, A, AR>(&mut self, _: A, f: F) -> Result<Variable, SynthesisError>
    where
        F: FnOnce() -> Result<Scalar, SynthesisError>,
        A: FnOnce() -> AR,
        AR: Into<String>,
    {
        self.input_assignment.push(f()?);
        self.b_input_density.add_element();
        Ok(Variable::new_unchecked(Index::Input(self.input_assignment.len() - 1)))
    }

    fn enforce<A, AR, LA, LB, LC>(&mut self, _: A, a: LA, b: LB, c: LC)
    where
        A: FnOnce() -> AR,
        AR: Into<String>,
        LA: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
        LB: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
        LC: FnOnce(LinearCombination<Scalar>) -> LinearCombination<Scalar>,
    {
        let a = a(LinearCombination::zero());
        let b = b(LinearCombination::zero());
        let c = c(LinearCombination::zero());
        let (inputs, aux) = (&self.input_assignment[..], self.aux_assignment.as_slice());

        // Inputs have full density in the A query, because of the constraints x * 0 = 0 for each input.
        let a = lc::eval_with_trackers(&a, None, Some(&mut self.a_aux_density), inputs, aux);
        let b = lc::eval_with_trackers(
            &b,
            Some(&mut self.b_input_density),
            Some(&mut self.b_aux_density),
            inputs,
            aux,
        );
        // There is no C query. The query for beta A + alpha B + C has full density.
        let c = c.eval(inputs, aux);

        if self.a.len() >= self.abc_capacity() {
            self.grow_abc(1);
        }
        self.a.push(a);
        self.b.push(b);
        self.c.push(c);
        self.constraints += 1;
    }

    fn push_namespace<NR, N>(&mut self, _: N)
    where
        NR: Into<String>,
        N: FnOnce() -> NR,
    {
        // Names matter only where constraints are debugged.
    }

    fn pop_namespace(&mut self) {}

    fn get_root(&mut self) -> &mut Self::Root {
        self
    }

    fn is_extensible() -> bool {
        true
    }

    /// # Panics
    /// If a, b and c of `other` were given back: its constraints would be lost.
    fn extend(&mut self, other: &Self) {
        assert_eq!(other.a.len(), other.constraints, "a, b and c of the other assignment were given back");
        self.a_aux_density.extend(&other.a_aux_density, false);
        self.b_input_density.extend(&other.b_input_density, true);
        self.b_aux_density.extend(&other.b_aux_density, false);

        let constraints = other.a.len();
        if self.abc_capacity() - self.a.len() < constraints {
            self.grow_abc(constraints);
        }
        self.a.extend_from_slice(other.a.as_slice());
        self.b.extend_from_slice(other.b.as_slice());
        self.c.extend_from_slice(other.c.as_slice());
        self.constraints += constraints;

        // The other's first input is the constant one, which is here already.
        self.input_assignment.extend_from_slice(&other.input_assignment[1..]);

        let aux = other.aux_assignment.len();
        if self.aux_assignment.capacity() - self.aux_assignment.len() < aux {
            self.grow_aux(aux);
        }
        self.aux_assignment.extend_from_slice(other.aux_assignment.as_slice());
    }
}

impl<Scalar: PrimeField> PartialEq for ProvingAssignment<Scalar> {
    /// Compares the circuits and the witness, not where they live.
    fn eq(&self, other: &Self) -> bool {
        self.a_aux_density == other.a_aux_density
            && self.b_input_density == other.b_input_density
            && self.b_aux_density == other.b_aux_density
            && self.a() == other.a()
            && self.b() == other.b()
            && self.c() == other.c()
            && self.input_assignment == other.input_assignment
            && self.aux_assignment() == other.aux_assignment()
    }
}

impl<Scalar: PrimeField> fmt::Debug for ProvingAssignment<Scalar> {
    /// The values are secret: only their numbers and places are shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProvingAssignment")
            .field("shape", &self.shape())
            .field("placement", &self.placement())
            .finish_non_exhaustive()
    }
}
