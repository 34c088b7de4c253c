package upload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Bucket is an S3 server and how to sign in.
type Bucket struct {
	Endpoint string // https://host[:port]; without a scheme, https
	Region   string
	KeyID    string
	Secret   string
	Patience time.Duration // how long an upload may bring nothing over; 0 is two minutes
}

// The variables of specdec_bench's uploader, which a Bucket is read from and errors name.
const (
	EnvEndpoint = "SPECDEC_BENCH_S3_ENDPOINT"
	EnvKeyID    = "SPECDEC_BENCH_S3_KEY_ID"
	EnvSecret   = "SPECDEC_BENCH_S3_SECRET"
)

// Check says what is wrong with the endpoint; it asks the server nothing.
func (b Bucket) Check() error {
	_, err := b.client()
	return err
}

// shaKey is the object's user metadata with the SHA-256 of its bytes, as S3
// clients spell it in an answer.
const shaKey = "Sha256"

// client makes a client; it asks the server nothing.
func (b Bucket) client() (*minio.Client, error) {
	text := b.Endpoint
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("cannot use the S3 endpoint (" + EnvEndpoint + "): want https://host or http://host:port, without a path or a user")
	}
	return minio.New(u.Host, &minio.Options{
		Creds: credentials.NewStaticV4(b.KeyID, b.Secret, ""), Secure: u.Scheme == "https",
		Region: b.Region, BucketLookup: minio.BucketLookupPath, MaxRetries: 5,
	})
}

// scrub takes the credentials out of an error's text: a server may quote them.
func (b Bucket) scrub(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, secret := range []string{b.Secret, b.KeyID} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "[redacted]")
		}
	}
	return scrubbed{text, err}
}

type scrubbed struct {
	text string
	err  error
}

// Error implements error.
func (s scrubbed) Error() string { return s.text }

// Unwrap gives the cause to errors.Is and errors.As.
func (s scrubbed) Unwrap() error { return s.err }

// Result counts what an upload did.
type Result struct {
	Uploaded, Kept int      // files: copied now, and there with the same bytes
	Bytes          int64    // copied now
	SkippedRuns    []string // there with other bytes, with skipExisting
}

// ErrExists is the refusal of runs that are in the bucket with other bytes.
var ErrExists = errors.New("runs exist in the bucket")

// Upload copies what is not there yet. Before the first byte it looks at every
// run: one whose key holds anything else than the same files is refused, all
// refusals at once, or left alone with skipExisting. progress may be io.Discard.
func (p Plan) Upload(ctx context.Context, b Bucket, skipExisting bool, progress io.Writer) (Result, error) {
	c, err := b.client()
	if err != nil {
		return Result{}, err
	}
	u := uploader{client: c, bucket: p.Target.Bucket, progress: progress, patience: b.Patience}
	err = u.upload(ctx, p.Runs, skipExisting)
	return u.result, b.scrub(hinted(err))
}

// hinted adds the setting to look at to what a server, or its absence, answered.
func hinted(err error) error {
	var answer minio.ErrorResponse
	var unreached *url.Error
	hint := ""
	switch {
	case errors.As(err, &answer):
		switch answer.Code {
		case "AccessDenied", "SignatureDoesNotMatch", "InvalidAccessKeyId":
			hint = EnvKeyID + ", " + EnvSecret + ", and what they may do in the bucket"
		case "AuthorizationHeaderMalformed", "PermanentRedirect", "InvalidRegion":
			hint = "--region"
		}
	case errors.As(err, &unreached):
		hint = EnvEndpoint
	}
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w; look at %s", err, hint)
}

type uploader struct {
	client   *minio.Client
	bucket   string
	progress io.Writer
	patience time.Duration
	result   Result
}

// todo is a file that is not in the bucket.
type todo struct {
	File
	sums
}

func (u *uploader) upload(ctx context.Context, runs []Run, skipExisting bool) error {
	var all []todo
	var refused []error
	for _, run := range runs {
		missing, err := u.compare(ctx, run)
		switch {
		case errors.Is(err, ErrExists) && skipExisting:
			u.result.SkippedRuns = append(u.result.SkippedRuns, run.Path)
		case errors.Is(err, ErrExists):
			refused = append(refused, err)
		case err != nil:
			return err
		default:
			u.result.Kept += len(run.Files) - len(missing)
			all = append(all, missing...)
		}
	}
	if len(refused) > 0 {
		return errors.Join(append(refused, errors.New("nothing was uploaded; choose another prefix, or give --skip-existing"))...)
	}
	for _, f := range all {
		if err := u.put(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// compare returns the files of a run that are not in the bucket, or ErrExists
// where its key holds other bytes or other files.
func (u *uploader) compare(ctx context.Context, run Run) ([]todo, error) {
	there := map[string]minio.ObjectInfo{}
	for o := range u.client.ListObjects(ctx, u.bucket, minio.ListObjectsOptions{Prefix: run.Key + "/", Recursive: true}) {
		if o.Err != nil {
			return nil, fmt.Errorf("cannot list s3://%s/%s: %w", u.bucket, run.Key, o.Err)
		}
		there[o.Key] = o
	}
	var missing []todo
	for _, f := range run.Files {
		s, err := checksums(f.Path)
		if err != nil {
			return nil, err
		}
		object, ok := there[f.Key]
		delete(there, f.Key)
		if !ok {
			missing = append(missing, todo{f, s})
			continue
		}
		same, err := u.same(ctx, object, s)
		if err != nil {
			return nil, err
		}
		if !same {
			return nil, fmt.Errorf("%w: run %q: s3://%s/%s has other bytes", ErrExists, run.Path, u.bucket, f.Key)
		}
	}
	if len(there) > 0 {
		return nil, fmt.Errorf("%w: run %q: s3://%s/%s is not in the folder", ErrExists, run.Path, u.bucket, slices.Sorted(maps.Keys(there))[0])
	}
	return missing, nil
}

// same says whether an object has the bytes of a file: by its ETag, or by the
// checksum that we kept with it where it came in several parts.
func (u *uploader) same(ctx context.Context, o minio.ObjectInfo, s sums) (bool, error) {
	if strings.Trim(o.ETag, `"`) == s.md5 {
		return true, nil
	}
	info, err := u.client.StatObject(ctx, u.bucket, o.Key, minio.StatObjectOptions{})
	if err != nil {
		return false, fmt.Errorf("cannot look at s3://%s/%s: %w", u.bucket, o.Key, err)
	}
	return info.UserMetadata[shaKey] == s.sha256, nil
}

// put copies one file. The server checks every part by its MD5, and the file is
// refused if it has changed since it was compared.
func (u *uploader) put(ctx context.Context, f todo) error {
	r, err := os.Open(f.Path)
	if err != nil {
		return fmt.Errorf("cannot read %q: %w", f.Path, err)
	}
	defer r.Close()
	if err := f.unchanged(r); err != nil {
		return err
	}
	ctx, progress, end := u.watch(ctx)
	defer end()
	put, err := u.client.PutObject(ctx, u.bucket, f.Key, r, f.Size, minio.PutObjectOptions{
		SendContentMd5: true, DisableContentSha256: true, // its stream of signed pieces has no length for an empty file
		UserMetadata: map[string]string{shaKey: f.sha256}, ContentType: contentType(f.Key), Progress: progress,
	})
	if err == nil {
		err = errors.Join(u.arrived(ctx, f, put.ETag), f.unchanged(r))
	}
	if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
		err = cause
	}
	if err != nil {
		return fmt.Errorf("cannot upload %q to s3://%s/%s: %w", f.Path, u.bucket, f.Key, err)
	}
	u.result.Uploaded++
	u.result.Bytes += f.Size
	fmt.Fprintf(u.progress, "s3://%s/%s (%d bytes)\n", u.bucket, f.Key, f.Size)
	return nil
}

// unchanged refuses a file that is not as it was when it was compared.
func (f todo) unchanged(r *os.File) error {
	if info, err := r.Stat(); err != nil || info.Size() != f.Size || !info.ModTime().Equal(f.changed) {
		return fmt.Errorf("cannot upload %q: it has changed since it was compared; run the command again", f.Path)
	}
	return nil
}

// severalParts is the ETag that S3 gives an object of several parts.
var severalParts = regexp.MustCompile(`-[0-9]+$`)

// arrived does not take an answer of success for an upload: anything that speaks
// HTTP may give one. The ETag is the MD5 of the file, or that of several parts,
// each of which was checked; else, as with a bucket that encrypts, the object has
// the checksum that went with it.
func (u *uploader) arrived(ctx context.Context, f todo, etag string) error {
	if severalParts.MatchString(strings.Trim(etag, `"`)) {
		return nil
	}
	same, err := u.same(ctx, minio.ObjectInfo{Key: f.Key, ETag: etag}, f.sums)
	switch {
	case err != nil:
		return fmt.Errorf("the server took it and does not show it, as if %s were not that of an S3 server: %w", EnvEndpoint, err)
	case !same:
		return fmt.Errorf("the server took it and does not have its checksum, as if %s were not that of an S3 server", EnvEndpoint)
	}
	return nil
}

// watch ends the context of an upload that brings nothing over for the time of
// Bucket.Patience.
func (u *uploader) watch(parent context.Context) (ctx context.Context, progress io.Reader, end func()) {
	ctx, cancel := context.WithCancelCause(parent)
	limit := cmp.Or(u.patience, 2*time.Minute)
	stalled := time.AfterFunc(limit, func() {
		cancel(fmt.Errorf("%w for %s: the server takes nothing; the same command goes on where it was", errStalled, limit))
	})
	return ctx, progressFunc(func() { stalled.Reset(limit) }), func() { stalled.Stop(); cancel(nil) }
}

var errStalled = errors.New("no byte went over")

// progressFunc is called as bytes go over, in the shape that the S3 client wants.
type progressFunc func()

// Read implements io.Reader; it is told how many bytes went over.
func (f progressFunc) Read(b []byte) (int, error) {
	f()
	return len(b), nil
}

func contentType(key string) string {
	switch {
	case strings.HasSuffix(key, ".json"):
		return "application/json"
	case strings.HasSuffix(key, ".jsonl"):
		return "application/x-ndjson"
	case strings.HasSuffix(key, ".html"):
		return "text/html; charset=utf-8"
	case strings.HasSuffix(key, ".csv"):
		return "text/csv; charset=utf-8"
	}
	return "application/octet-stream"
}
